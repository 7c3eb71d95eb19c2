#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text_hash.h"
#include "service/piece_search.h"
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
  /// Rules for keys, and for the keys of patterns, in order.
  explicit Overrides(const std::vector<std::pair<std::string, KeyRule>>& rules);

  /// The rule of this key: one hash look-up, then the patterns in order. Null if there is none.
  /// Takes time linear in the key (clients send keys of 64 KiB) and in the number of places where
  /// the key has a text that stands between two '*' of a pattern. Several of these texts can end at
  /// one character, if one is the end of another.
  const KeyRule* find(std::string_view key) const;

 private:
  struct Pattern {
    std::string head;
    std::vector<std::uint32_t> pieces;  // What stands between two '*', by its number.
    std::string tail;
    KeyRule rule;

    bool has_ends_of(std::string_view key) const {
      return key.size() >= head.size() + tail.size() && key.starts_with(head) &&
             key.ends_with(tail);
    }
  };

  std::size_t search(std::string_view key, std::size_t first) const;

  std::unordered_map<std::string, KeyRule, TextHash, std::equal_to<>> exact_;
  std::vector<Pattern> patterns_;
  std::size_t piece_count_ = 0;
  std::optional<PieceSearch> pieces_;  // If there are any.
};

/// Whether '*' marks a pattern in this text.
inline bool is_pattern(std::string_view text) {
  return text.find('*') != std::string_view::npos;
}

/// Whether the pattern, in which '*' stands for any characters or none, is the key's. For single
/// patterns that are not prepared; Overrides decides by the same rule, for many at once.
bool matches(std::string_view pattern, std::string_view key);

}  // namespace sluice
