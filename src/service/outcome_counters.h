#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/decision.h"

namespace sluice {

/// How many requests of a limit had one outcome (allowed or denied, and by which source), for
/// display.
struct OutcomeCount {
  std::string limit;
  bool allowed = false;
  Source source = Source::kStore;
  std::uint64_t decisions = 0;

  friend bool operator==(const OutcomeCount&, const OutcomeCount&) = default;
};

/// Counts the decisions of one thread, by limit, outcome and source. One thread adds; any thread
/// may read meanwhile.
class OutcomeCounters {
 public:
  static constexpr std::size_t kSources = static_cast<std::size_t>(Source::kUnavailable) + 1;

  /// For the limits numbered from 0 to `limits` - 1.
  explicit OutcomeCounters(std::size_t limits) : counts_(limits) {}

  /// REQUIRES: limit < limits.
  void add(std::size_t limit, bool allowed, Source source) {
    std::atomic<std::uint64_t>& count = counts_[limit][index_of(allowed, source)];
    // Not fetch_add(), which would lock the cache line: no other thread writes.
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  std::uint64_t read(std::size_t limit, bool allowed, Source source) const {
    return counts_[limit][index_of(allowed, source)].load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t index_of(bool allowed, Source source) {
    return static_cast<std::size_t>(source) + (allowed ? kSources : 0);
  }

  std::vector<std::array<std::atomic<std::uint64_t>, 2 * kSources>> counts_;
};

}  // namespace sluice
