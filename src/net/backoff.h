#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace sluice {

/// How long to wait before connecting again. Knows no clock.
class Backoff {
 public:
  struct Bounds {
    std::chrono::milliseconds least;
    std::chrono::milliseconds most;
  };

  explicit Backoff(Bounds bounds) : bounds_(bounds) {}

  /// After an attempt that failed: the pause doubles from the least to the most from one to the
  /// next, less up to half of it, as `random` says (any value is as likely as any other).
  std::chrono::nanoseconds after_failure(std::uint32_t random) {
    troubled_ = true;
    const std::chrono::nanoseconds pause =
        std::clamp<std::chrono::nanoseconds>(next_, bounds_.least, bounds_.most);
    next_ = std::min<std::chrono::nanoseconds>(2 * pause, bounds_.most);
    constexpr double kRange = std::numeric_limits<std::uint32_t>::max();
    const double less = static_cast<double>(pause.count()) / 2 * (random / kRange);
    return pause - std::chrono::nanoseconds(static_cast<std::int64_t>(less));
  }

  /// After the loss of a connection: nothing, unless it came after other troubles, so that a server
  /// that accepts and drops is not besieged.
  std::chrono::nanoseconds after_loss(std::uint32_t random) {
    if (troubled_) return after_failure(random);
    troubled_ = true;
    return std::chrono::nanoseconds(0);
  }

  /// A connection that is given up was up for so long: if long enough, earlier troubles are
  /// forgotten.
  void forget_if_lasting(std::chrono::nanoseconds was_up_for) {
    if (was_up_for < bounds_.most) return;
    troubled_ = false;
    next_ = std::chrono::nanoseconds(0);
  }

 private:
  Bounds bounds_;
  bool troubled_ = false;
  std::chrono::nanoseconds next_{0};  // The pause after the next failure, before its jitter.
};

}  // namespace sluice
