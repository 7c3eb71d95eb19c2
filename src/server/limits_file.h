#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/log.h"
#include "server/yaml_file.h"
#include "service/served_limits.h"

namespace sluice {

inline constexpr std::size_t kMaxNamedLimits = 256;
/// The most patterns of one limit, which are tried one after the other.
inline constexpr std::size_t kMaxPatterns = 256;
/// The most overrides of all limits of a file.
inline constexpr std::size_t kMaxOverrides = 10'000;
/// The most bytes of an override's key.
inline constexpr std::size_t kMaxOverrideKeyBytes = 1'024;

/// Reads the member `limits` of a file, at most kMaxNamedLimits named limits:
///
///     limits:
///       login: sliding_log 5/10m
///       api:
///         limit: token_bucket 100/1s burst=200
///         dry_run: yes
///         key: "{ip}"
///         overrides:
///           - {key: "customer:7", limit: token_bucket 1000/1s}
///           - {key: "internal:*", unlimited: yes}
///           - {key: "banned:*", deny: yes}
///
/// Throws ConfigError "PATH:LINE:COLUMN: sentence" at the first mistake; where an expression is
/// wrong, the column is that of the character in it, unless the text is folded or escaped.
std::vector<NamedLimit> read_limits(const YamlFile& file, const YamlMember& member);

/// Logs a warning for each limit whose rate is rounded noticeably, see Limit::warning().
void warn_of_rounding(const std::vector<NamedLimit>& limits, const LogFunction& log);

/// The limits of a file that has no other members. Throws ConfigError.
std::vector<NamedLimit> parse_limits(std::string_view yaml, const std::string& path);
/// The same, from the file.
std::vector<NamedLimit> read_limits_file(const std::string& path);

}  // namespace sluice
