#pragma once

#include <chrono>
#include <string_view>

#include "sluice/sluice.h"

namespace sluice {

inline constexpr std::chrono::nanoseconds kWeek = std::chrono::hours(24 * 7);
/// Limits whose units do not return while the tests run, at any time of the clock.
inline constexpr const char* kFivePerWeek = "sliding_log 5/1w";
inline constexpr const char* kBucket = "token_bucket 10/1w";

/// Over a store of its own.
inline Limiter make_limiter(std::string_view expression = kFivePerWeek,
                            std::string_view name = {}) {
  return Limiter(open_store("memory:"), Limit(expression, name));
}

}  // namespace sluice
