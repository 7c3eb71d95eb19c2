#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text_hash.h"
#include "service/served_limits.h"
#include "waiting/limit_binding.h"

namespace sluice {

/// What an override says of its keys: the limit that applies. An override without a limit of its
/// own refers to the limit that it overrides, for resets, the release of permits and commits.
struct KeyRule : BoundLimit {
  LimitOverride::Kind kind = LimitOverride::Kind::kLimit;
};

/// The overrides of one limit. Immutable, thread-safe.
class Overrides {
 public:
  /// Adds a rule for a key, or for the keys of a pattern, after the rules added before.
  void add(const std::string& key, KeyRule rule);

  /// The rule of this key: one hash look-up, then the patterns in order. Null if there is none.
  const KeyRule* find(std::string_view key) const;

 private:
  std::unordered_map<std::string, KeyRule, TextHash, std::equal_to<>> exact_;
  std::vector<std::pair<std::string, KeyRule>> patterns_;
};

/// Whether '*' marks a pattern in this text.
inline bool is_pattern(std::string_view text) {
  return text.find('*') != std::string_view::npos;
}

/// Whether the pattern, in which '*' stands for any characters or none, is the key's.
bool matches(std::string_view pattern, std::string_view key);

}  // namespace sluice
