#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace sluice {

/// Computes the pauses before a client connects again. Reads no clock: the caller waits.
class Backoff {
 public:
  struct Bounds {
    std::chrono::milliseconds least;
    std::chrono::milliseconds most;
  };

  explicit Backoff(Bounds bounds) : bounds_(bounds) {}

  /// The pause after an attempt to connect that failed. It doubles from failure to failure, from
  /// bounds.least up to bounds.most; a random part of up to a half is subtracted. `random` is
  /// uniformly distributed over all values.
  std::chrono::nanoseconds after_failure(std::uint32_t random) {
    troubled_ = true;
    const std::chrono::nanoseconds pause =
        std::clamp<std::chrono::nanoseconds>(next_, bounds_.least, bounds_.most);
    next_ = std::min<std::chrono::nanoseconds>(2 * pause, bounds_.most);
    constexpr double kRange = std::numeric_limits<std::uint32_t>::max();
    const double less = static_cast<double>(pause.count()) / 2 * (random / kRange);
    return pause - std::chrono::nanoseconds(static_cast<std::int64_t>(less));
  }

  /// The pause after the loss of a connection that was up. It is zero after the first loss. If
  /// another failure or loss went before, it is that of after_failure(), so that a client does not
  /// connect without pause to a server that accepts connections and closes them at once.
  std::chrono::nanoseconds after_loss(std::uint32_t random) {
    if (troubled_) return after_failure(random);
    troubled_ = true;
    return std::chrono::nanoseconds(0);
  }

  /// Called when a connection is given up that was up for `was_up_for`, without the time in which
  /// the server was silent at the end. If that is at least bounds.most, earlier failures and losses
  /// are forgotten.
  void forget_if_lasting(std::chrono::nanoseconds was_up_for) {
    if (was_up_for < bounds_.most) return;
    troubled_ = false;
    next_ = std::chrono::nanoseconds(0);
  }

 private:
  Bounds bounds_;
  bool troubled_ = false;             // There was a failure or a loss that is not forgotten.
  std::chrono::nanoseconds next_{0};  // The pause after the next failure, before its jitter.
};

}  // namespace sluice
