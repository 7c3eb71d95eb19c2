#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

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
    increase(decisions_[static_cast<std::size_t>(bucket - bounds.begin())], decisions);
    increase(sum_ns_, static_cast<std::uint64_t>(duration_ns) * decisions);
  }

  void add_to(DurationCounts& counts) const {
    for (std::size_t i = 0; i < DurationCounts::kBuckets; ++i) {
      counts.decisions[i] += decisions_[i].load(std::memory_order_relaxed);
    }
    counts.sum_ns += sum_ns_.load(std::memory_order_relaxed);
  }

 private:
  // Not fetch_add(), which would lock the cache line: no other thread writes.
  static void increase(std::atomic<std::uint64_t>& count, std::uint64_t by) {
    count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  std::array<std::atomic<std::uint64_t>, DurationCounts::kBuckets> decisions_{};
  std::atomic<std::uint64_t> sum_ns_ = 0;
};

}  // namespace sluice
