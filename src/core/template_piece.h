#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

/// A piece of a key template, which is text with fields in braces; `{{` and `}}` are a brace.
struct TemplatePiece {
  enum class Kind : std::uint8_t { kText, kField, kUnmatched };

  Kind kind = Kind::kText;
  /// Some text, a field without its braces, or the brace that has no other.
  std::string_view text;
};

/// Takes the first piece off the rest of a template; an unmatched brace stays there. REQUIRES: the
/// rest is not empty.
inline TemplatePiece take_piece(std::string_view& rest) {
  using enum TemplatePiece::Kind;
  const auto take = [&](std::size_t size) {
    const std::string_view taken = rest.substr(0, size);
    rest.remove_prefix(size);
    return taken;
  };
  const std::size_t brace = std::min(rest.find_first_of("{}"), rest.size());
  if (brace != 0) return {kText, take(brace)};
  if (rest.size() > 1 && rest[1] == rest[0]) return {kText, take(2).substr(1)};
  const std::size_t close = rest.find('}');
  if (close == 0 || close == std::string_view::npos) return {kUnmatched, rest.substr(0, 1)};
  return {kField, take(close + 1).substr(1, close - 1)};
}

}  // namespace sluice
