#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/limit.h"

namespace sluice {

/// How a named limit treats some of its keys otherwise.
struct LimitOverride {
  enum class Kind : std::uint8_t {
    kLimit,     ///< By other numbers.
    kAllowAll,  ///< Allows all that they ask for; the store is not asked.
    kDeny,      ///< Denies all that they ask for; the store is not asked.
  };

  /// A key, or, with a '*' in it, a pattern: '*' stands for any characters, or none.
  std::string key;
  Kind kind = Kind::kLimit;
  /// kLimit: what holds for the key. It has the name of the limit that it overrides.
  std::optional<Limit> limit = std::nullopt;
};

/// A limit that requests may name.
struct NamedLimit {
  NamedLimit(Limit always) : limit(std::move(always)) {}

  Limit limit;
  /// Requests are judged, charged where they are admitted, and counted, but never denied.
  bool dry_run = false;
  /// How a protocol makes the key of a request that names none, for example "{ip}"; empty where the
  /// file does not say.
  std::string key = {};
  /// Of those whose key is equal, that one holds; else the first whose pattern matches.
  std::vector<LimitOverride> overrides = {};
};

/// Which limits a server answers for.
struct ServedLimits {
  ServedLimits() = default;
  /// These, and expressions.
  ServedLimits(const std::vector<Limit>& limits) : named(limits.begin(), limits.end()) {}

  /// The limits that requests may name.
  std::vector<NamedLimit> named = {};
  /// Whether requests may also say in their own words what the limit is: an expression, or the
  /// numbers of CL.THROTTLE.
  bool expressions = true;
};

}  // namespace sluice
