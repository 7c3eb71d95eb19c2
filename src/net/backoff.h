#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace sluice {

/// The pauses before a client tries again. Reads no clock: the caller waits.
class Backoff {
 public:
  Backoff(std::chrono::nanoseconds least, std::chrono::nanoseconds most)
      : least_(least), most_(most) {}

  /// Doubles from call to call, from the least to the most; a random part of up to a half is
  /// subtracted, so that the processes of a fleet do not try in step.
  std::chrono::nanoseconds next() {
    const std::chrono::nanoseconds pause = next_;
    next_ = std::min(2 * pause, most_);
    std::uniform_int_distribution<std::int64_t> less(0, pause.count() / 2);
    return pause - std::chrono::nanoseconds(less(random_));
  }
  /// The next pause is the least again.
  void reset() { next_ = least_; }

 private:
  std::chrono::nanoseconds least_;
  std::chrono::nanoseconds most_;
  std::chrono::nanoseconds next_ = least_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace sluice
