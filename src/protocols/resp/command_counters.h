#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace sluice::resp {

/// Counts the commands that one thread has run, by their row in the table of commands. One thread
/// adds; any thread may read meanwhile.
class CommandCounters {
 public:
  static constexpr std::size_t kMaxRows = 64;

  /// REQUIRES: row < kMaxRows.
  void add(std::size_t row, std::uint64_t calls) {
    assert(row < kMaxRows);
    std::atomic<std::uint64_t>& count = counts_[row];
    // Not fetch_add(), which would lock the cache line: no other thread writes.
    count.store(count.load(std::memory_order_relaxed) + calls, std::memory_order_relaxed);
  }

  std::uint64_t read(std::size_t row) const { return counts_[row].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<std::uint64_t>, kMaxRows> counts_{};
};

}  // namespace sluice::resp
