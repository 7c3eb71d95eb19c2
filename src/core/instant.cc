#include "core/instant.h"

#include <chrono>

namespace sluice {
namespace {

template <class C>
std::int64_t read_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(C::now().time_since_epoch()).count();
}

}  // namespace

Clock::Clock()
    : offset_ns_(read_ns<std::chrono::system_clock>() - read_ns<std::chrono::steady_clock>()) {}

Instant wall_now() {
  return read_ns<std::chrono::system_clock>();
}

Instant Clock::now() const {
  return offset_ns_ + read_ns<std::chrono::steady_clock>();
}

}  // namespace sluice
