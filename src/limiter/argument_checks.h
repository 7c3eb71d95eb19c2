#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/instant.h"

namespace sluice {

// What callers may ask for. Each throws std::invalid_argument, whose sentence has the number and
// the range.

/// Units are at least 0. `what` begins the sentence: "a cost".
inline void require_units(std::string_view what, std::int64_t units) {
  if (units >= 0) [[likely]] {
    return;
  }
  throw std::invalid_argument(std::string(what) + " is at least 0, not " + std::to_string(units));
}

/// A patience is at least 0.
inline void require_patience(std::chrono::nanoseconds patience) {
  if (patience.count() >= 0) return;
  throw std::invalid_argument("a patience is at least 0 ns, not " +
                              std::to_string(patience.count()));
}

/// A block lasts from 1 ns to kMaxDurationNs.
inline void require_block_duration(std::chrono::nanoseconds duration) {
  if (duration.count() >= 1 && duration.count() <= kMaxDurationNs) return;
  throw std::invalid_argument("a block lasts from 1 to " + std::to_string(kMaxDurationNs) +
                              " ns, not " + std::to_string(duration.count()));
}

/// What `body` throws, for a callback; null where it throws nothing.
template <class Body>
std::exception_ptr error_in(const Body& body) {
  try {
    body();
  } catch (const std::exception&) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace sluice
