#include "core/near_miss.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kMaxEdits = 2;
constexpr std::size_t kMaxNameBytes = 64;

// How many edits make one text the other (optimal string alignment). REQUIRES: both are at most
// kMaxNameBytes long.
std::size_t count_edits(std::string_view a, std::string_view b) {
  assert(a.size() <= kMaxNameBytes && b.size() <= kMaxNameBytes);
  using Row = std::array<std::size_t, kMaxNameBytes + 1>;
  Row before_last{};
  Row last{};
  Row row{};
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, changed});
      const bool is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string_view find_near_miss(std::string_view text, std::span<const std::string_view> names) {
  if (text.size() > kMaxNameBytes) return {};
  std::string_view nearest;
  std::size_t fewest = kMaxEdits + 1;
  for (const std::string_view name : names) {
    // As many edits are needed at least as the lengths differ.
    const std::size_t longer = std::max(text.size(), name.size());
    const std::size_t shorter = std::min(text.size(), name.size());
    if (name.size() > kMaxNameBytes || longer - shorter > kMaxEdits) continue;
    const std::size_t edits = count_edits(text, name);
    const bool is_near = 3 * edits <= std::max(text.size(), name.size());
    if (is_near && edits < fewest) {
      nearest = name;
      fewest = edits;
    }
  }
  return nearest;
}

std::string suggest_name(std::string_view text, std::span<const std::string_view> names) {
  const std::string_view name = find_near_miss(text, names);
  return name.empty() ? "" : " (did you mean '" + std::string(name) + "'?)";
}

}  // namespace sluice
