#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/instant.h"

namespace sluice::replay {

/// The most limits that a timeline has.
inline constexpr std::size_t kMaxCharted = 8;

/// The most steps of a timeline.
inline constexpr std::int64_t kMaxSteps = 500;

/// Divides time into steps of one width, which begin at the multiples of the width since the epoch.
/// The width is one of 1 ms, 5 ms, 10 ms, ... 1 s, 5 s, 15 s, 30 s, 1 min, ... 1 d, 2 d, 4 d, ...:
/// each is a multiple of the one before, so that wider steps are made of whole narrower ones.
class TimeSteps {
 public:
  /// Includes an instant. If there are then more than kMaxSteps steps from the first to the last
  /// included instant, widens the steps, and returns by which factor; else 1.
  std::int64_t include(Instant time_ns);

  /// The step of an instant.
  std::int64_t step(Instant time_ns) const { return time_ns / width_ns_; }

  std::int64_t width_ns() const { return width_ns_; }

  /// By which factor the next width is larger.
  std::int64_t next_factor() const;

  /// Widens the steps by next_factor().
  void widen() { width_ns_ *= next_factor(); }

 private:
  bool is_empty_ = true;
  Instant first_ns_ = 0;
  Instant last_ns_ = 0;
  std::int64_t width_ns_ = kMillisecondNs;
};

/// What happened in one step.
struct StepCounts {
  std::int64_t step = 0;
  std::uint64_t requests = 0;
  /// By limit: the denied requests, and the least that remained after a decision.
  std::array<std::uint64_t, kMaxCharted> denied{};
  std::array<std::int64_t, kMaxCharted> level{};
};

/// The steps in which anything happened, in order.
class Timeline {
 public:
  /// The counts of a step. Valid until the next call. A new step has no requests, and its levels
  /// are the largest number.
  StepCounts& at(std::int64_t step);

  /// Joins each `factor` steps to one.
  void widen(std::int64_t factor);

  const std::vector<StepCounts>& steps() const { return steps_; }

 private:
  std::vector<StepCounts> steps_;
};

}  // namespace sluice::replay
