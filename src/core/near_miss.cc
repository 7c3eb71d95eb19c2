#include "core/near_miss.h"

#include <algorithm>
#include <cstddef>

#include "core/ascii.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxEdits = 2;

constexpr bool is_same(char a, char b) {
  return to_small(a) == to_small(b);
}

// Whether so many edits make one text the other. Each choice of the edits is tried, where the texts
// differ; with two edits there are few.
bool is_within(std::size_t edits, std::string_view a, std::string_view b) {
  const auto [a_rest, b_rest] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), is_same);
  a = {a_rest, a.end()};
  b = {b_rest, b.end()};
  if (a.empty() || b.empty()) return a.size() + b.size() <= edits;
  if (edits-- == 0) return false;
  if (is_within(edits, a.substr(1), b.substr(1)) || is_within(edits, a.substr(1), b) ||
      is_within(edits, a, b.substr(1))) {
    return true;
  }
  const bool is_swapped =
      a.size() > 1 && b.size() > 1 && is_same(a[0], b[1]) && is_same(a[1], b[0]);
  return is_swapped && is_within(edits, a.substr(2), b.substr(2));
}

}  // namespace

std::string_view find_near_miss(std::string_view text, std::span<const std::string_view> names) {
  for (std::size_t edits = 0; edits <= kMaxEdits; ++edits) {
    for (const std::string_view name : names) {
      const std::size_t longer = std::max(text.size(), name.size());
      const std::size_t shorter = std::min(text.size(), name.size());
      const bool may_be_near = 3 * edits <= longer && longer - shorter <= edits;
      if (may_be_near && is_within(edits, text, name)) return name;
    }
  }
  return {};
}

std::string suggest_name(std::string_view text, std::span<const std::string_view> names) {
  const std::string_view name = find_near_miss(text, names);
  return name.empty() ? "" : " (did you mean '" + std::string(name) + "'?)";
}

}  // namespace sluice
