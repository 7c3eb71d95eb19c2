#include "faults/canary.h"

#include <algorithm>

namespace sluice::faults {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStep{1};

Canary::Canary()
    : thread_([this] {
        do {
          const Clock::time_point due = Clock::now() + kStep;
          std::this_thread::sleep_until(due);
          late_.push_back(Clock::now() - due);
        } while (!stopping_.load(std::memory_order_relaxed));
      }) {}

Canary::~Canary() {
  stop();
}

std::chrono::nanoseconds Canary::stop() {
  stopping_.store(true);
  if (thread_.joinable()) thread_.join();
  const auto most = late_.end() - 1 - static_cast<std::ptrdiff_t>(late_.size() / 1000);
  std::ranges::nth_element(late_, most);
  return *most;
}

}  // namespace sluice::faults
