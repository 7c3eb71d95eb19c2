#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

#include "waiting/timer_thread.h"

namespace sluice {

/// After which pauses the first caller of a queue asks again for a permit that other processes
/// share. A pause is at most twice as long as the one before it, and half of it is left to chance,
/// so that processes do not ask in step. If the store does not report releases, and the queue has
/// been granted nothing for kPassedOver (longer than a run of grants of another process, see
/// ReleaseFairness), the pauses are at most kMostPassedOver.
class AskPauses {
 public:
  static constexpr std::chrono::milliseconds kLeast{5};
  static constexpr std::chrono::milliseconds kMost{100};
  static constexpr std::chrono::milliseconds kMostPassedOver{20};
  static constexpr std::chrono::seconds kPassedOver{3};

  AskPauses(TimerQueue::TimePoint now, std::uint64_t seed)
      : granted_(now), jitter_(static_cast<std::minstd_rand::result_type>(seed)) {}

  /// A permit may be free: the next pause is short.
  void restart() { longest_ = kLeast; }

  /// The queue was granted a permit, or its first caller has come.
  void granted(TimerQueue::TimePoint now) {
    restart();
    granted_ = now;
  }

  std::chrono::nanoseconds next(TimerQueue::TimePoint now, bool is_reported) {
    const bool is_passed_over = !is_reported && now - granted_ >= kPassedOver;
    const std::chrono::nanoseconds most = is_passed_over ? kMostPassedOver : kMost;
    const std::chrono::nanoseconds longest = std::min(most, longest_);
    longest_ = std::min(most, 2 * longest_);
    std::uniform_int_distribution part(longest.count() / 2, longest.count());
    return std::max<std::chrono::nanoseconds>(kLeast, std::chrono::nanoseconds(part(jitter_)));
  }

 private:
  std::chrono::nanoseconds longest_ = kLeast;
  TimerQueue::TimePoint granted_;
  std::minstd_rand jitter_;
};

}  // namespace sluice
