#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/yaml_file.h"
#include "sluice/limit.h"

namespace sluice {

inline constexpr std::size_t kMaxNamedLimits = 256;

/// Reads the member `limits` of a file, at most kMaxNamedLimits named limits:
///
///     limits:
///       login: sliding_log 5/10m
///       api: "token_bucket 100/1s burst=200 & fixed_window 10000/1d"
///
/// Throws ConfigError "PATH:LINE:COLUMN: sentence" at the first mistake; where an expression is
/// wrong, the column is that of the character in it, unless the text is folded or escaped.
std::vector<Limit> read_limits(const YamlFile& file, const YamlMember& member);

/// The limits of a file that has no other members. Throws ConfigError.
std::vector<Limit> parse_limits(std::string_view yaml, const std::string& path);
/// The same, from the file.
std::vector<Limit> read_limits_file(const std::string& path);

}  // namespace sluice
