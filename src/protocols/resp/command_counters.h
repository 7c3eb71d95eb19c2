#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "service/thread_count.h"

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
  void add_calls(std::size_t row, std::uint64_t calls) { rows_[row].calls.add(calls); }
  void add_rejected(std::size_t row) { rows_[row].rejected.add(1); }

  Counts read(std::size_t row) const {
    assert(row < kMaxRows);
    return {.calls = rows_[row].calls.read(), .rejected = rows_[row].rejected.read()};
  }

 private:
  struct Row {
    ThreadCount calls;
    ThreadCount rejected;
  };

  std::array<Row, kMaxRows> rows_;
};

}  // namespace sluice::resp
