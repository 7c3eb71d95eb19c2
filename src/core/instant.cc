#include "core/instant.h"

#include <ctime>

namespace sluice {
namespace {

std::int64_t to_ns(auto time_point) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time_point.time_since_epoch())
      .count();
}

}  // namespace

Clock::Clock(Instant now) : offset_ns_(now - to_ns(std::chrono::steady_clock::now())) {}

Instant wall_now() {
  return to_ns(std::chrono::system_clock::now());
}

std::chrono::steady_clock::time_point steady_now_cheaply() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(time.tv_sec) +
                                               std::chrono::nanoseconds(time.tv_nsec));
}

Instant Clock::at(std::chrono::steady_clock::time_point time) const {
  return offset_ns_ + to_ns(time);
}

Instant Clock::now_cheaply() const {
  return at(steady_now_cheaply());
}

Instant Clock::now() const {
  return at(std::chrono::steady_clock::now());
}

}  // namespace sluice
