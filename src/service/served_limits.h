#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/limit.h"

namespace sluice {

/// An override: another rule for some keys of a named limit.
struct LimitOverride {
  enum class Kind : std::uint8_t {
    kLimit,     ///< By other numbers.
    kAllowAll,  ///< Allows all that they ask for; the store is not asked.
    kDeny,      ///< Denies all that they ask for; the store is not asked.
  };

  /// A key, or, with a '*' in it, a pattern: '*' stands for any characters, or none.
  std::string key;
  Kind kind = Kind::kLimit;
  /// kLimit: the limit that applies to the key. It has the name of the limit that it overrides.
  std::optional<Limit> limit = std::nullopt;
};

/// A limit that requests may name.
struct NamedLimit {
  NamedLimit(Limit always) : limit(std::move(always)) {}

  Limit limit;
  /// Dry run: requests are decided, charged if they are admitted, and counted, but never denied.
  bool dry_run = false;
  /// The template for the key of a request that names none, for example "{ip}"; empty if the file
  /// has none.
  std::string key = {};
  /// The override with exactly the request's key applies; otherwise the first whose pattern
  /// matches.
  std::vector<LimitOverride> overrides = {};
};

/// The limits that a server serves.
struct ServedLimits {
  ServedLimits() = default;
  /// These, and expressions.
  ServedLimits(const std::vector<Limit>& limits) : named(limits.begin(), limits.end()) {}

  /// The limits that requests may name.
  std::vector<NamedLimit> named = {};
  /// Whether requests may also define a limit themselves: by an expression, or by numbers as in
  /// CL.THROTTLE.
  bool expressions = true;
};

}  // namespace sluice
