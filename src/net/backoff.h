#pragma once

#include <chrono>
#include <cstdint>

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
  std::chrono::nanoseconds after_failure(std::uint32_t random);

  /// After the loss of a connection that was up for so long: nothing, unless it was short-lived and
  /// came after other troubles, so that a server that accepts and drops is not besieged.
  std::chrono::nanoseconds after_loss(std::chrono::nanoseconds was_up_for, std::uint32_t random);

  /// The connection was up for so long before it was given up: if long enough, earlier troubles are
  /// forgotten.
  void forget_if_lasting(std::chrono::nanoseconds was_up_for);

 private:
  Bounds bounds_;
  bool troubled_ = false;
  std::chrono::nanoseconds next_{0};  // The pause after the next failure, before its jitter.
};

}  // namespace sluice
