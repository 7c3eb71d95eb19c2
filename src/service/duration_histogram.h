#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "service/thread_count.h"

namespace sluice {

/// How many decisions took how long, for display.
struct DurationCounts {
  /// The upper bounds of the buckets, in nanoseconds. One more bucket has no bound.
  static constexpr std::array<std::int64_t, 21> kBoundsNs = {
      250,        500,        1'000,      2'500,       5'000,       10'000,      25'000,
      50'000,     100'000,    250'000,    500'000,     1'000'000,   2'500'000,   5'000'000,
      10'000'000, 25'000'000, 50'000'000, 100'000'000, 250'000'000, 500'000'000, 1'000'000'000};
  static constexpr std::size_t kBuckets = kBoundsNs.size() + 1;

  /// The decisions in each bucket, not cumulative.
  std::array<std::uint64_t, kBuckets> decisions{};
  std::uint64_t sum_ns = 0;
};

/// Counts how long the decisions of one thread took. One thread adds; any thread may read
/// meanwhile.
class DurationHistogram {
 public:
  /// Counts `decisions` decisions, each of which took `duration_ns`.
  void add(std::int64_t duration_ns, std::uint64_t decisions) {
    const auto& bounds = DurationCounts::kBoundsNs;
    const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), duration_ns);
    decisions_[static_cast<std::size_t>(bucket - bounds.begin())].add(decisions);
    sum_ns_.add(static_cast<std::uint64_t>(duration_ns) * decisions);
  }

  void add_to(DurationCounts& counts) const {
    for (std::size_t i = 0; i < DurationCounts::kBuckets; ++i) {
      counts.decisions[i] += decisions_[i].read();
    }
    counts.sum_ns += sum_ns_.read();
  }

 private:
  std::array<ThreadCount, DurationCounts::kBuckets> decisions_;
  ThreadCount sum_ns_;
};

}  // namespace sluice
