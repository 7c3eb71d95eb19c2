#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/limit.h"

namespace sluice {

inline constexpr std::size_t kMaxLimitsFileBytes = 1024 * 1024;
inline constexpr std::size_t kMaxNamedLimits = 256;

/// Reads at most kMaxNamedLimits named limits from YAML, which is one document:
///
///     limits:
///       login: sliding_log 5/10m
///       api: "token_bucket 100/1s burst=200 & fixed_window 10000/1d"
///
/// Throws ConfigError "PATH:LINE:COLUMN: sentence" at the first fault; where an expression is at
/// fault, the column is that of the character in it, unless the text is folded or escaped.
std::vector<Limit> parse_limits(std::string_view yaml, const std::string& path);

/// The same, from a file of at most kMaxLimitsFileBytes. Throws ConfigError "PATH: sentence" where
/// it cannot be read.
std::vector<Limit> read_limits_file(const std::string& path);

}  // namespace sluice
