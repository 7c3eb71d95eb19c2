#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string_view>

namespace sluice {

// What callers may ask for. Each throws std::invalid_argument, whose sentence has the number and
// the range.

[[noreturn]] void refuse_units(std::string_view what, std::int64_t units);

/// Units are at least 0. `what` begins the sentence: "a cost".
inline void require_units(std::string_view what, std::int64_t units) {
  if (units < 0) [[unlikely]] {
    refuse_units(what, units);
  }
}

/// A patience is at least 0.
void require_patience(std::chrono::nanoseconds patience);

/// A block lasts from 1 ns to kMaxDurationNs.
void require_block_duration(std::chrono::nanoseconds duration);

/// What `check` throws, for a callback; null where it throws nothing.
template <class Check>
std::exception_ptr fault_in(Check check) {
  try {
    check();
  } catch (const std::exception&) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace sluice
