#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace sluice::resp {

/// Counts the commands that one thread has run, and those that it has refused before they ran, by
/// their row in the table of commands. One thread adds; any thread may read meanwhile.
class CommandCounters {
 public:
  static constexpr std::size_t kMaxRows = 64;

  struct Counts {
    std::uint64_t calls = 0;
    std::uint64_t rejected = 0;
  };

  /// REQUIRES: row < kMaxRows.
  void add_calls(std::size_t row, std::uint64_t calls) { add(rows_[row].calls, calls); }
  void add_rejected(std::size_t row) { add(rows_[row].rejected, 1); }

  Counts read(std::size_t row) const {
    assert(row < kMaxRows);
    return {.calls = rows_[row].calls.load(std::memory_order_relaxed),
            .rejected = rows_[row].rejected.load(std::memory_order_relaxed)};
  }

 private:
  struct Row {
    std::atomic<std::uint64_t> calls = 0;
    std::atomic<std::uint64_t> rejected = 0;
  };

  // Not fetch_add(), which would lock the cache line: no other thread writes.
  static void add(std::atomic<std::uint64_t>& count, std::uint64_t more) {
    count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  std::array<Row, kMaxRows> rows_;
};

}  // namespace sluice::resp
