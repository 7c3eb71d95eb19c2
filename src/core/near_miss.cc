#include "core/near_miss.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "core/ascii.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxEdits = 2;
constexpr std::size_t kMaxNameBytes = 64;

constexpr bool is_same(char a, char b) {
  return to_small(a) == to_small(b);
}

// How many edits make one text the other (optimal string alignment), or any number above kMaxEdits
// if there are more. With at most kMaxEdits edits, the i-th character becomes one from the
// (i - kMaxEdits)-th to the (i + kMaxEdits)-th, so no others are compared (E. Ukkonen, "Algorithms
// for Approximate String Matching", 1985). REQUIRES: both are at most kMaxNameBytes long, and
// their lengths differ by at most kMaxEdits.
std::size_t count_edits(std::string_view a, std::string_view b) {
  assert(a.size() <= kMaxNameBytes && b.size() <= kMaxNameBytes);
  assert(a.size() <= b.size() + kMaxEdits && b.size() <= a.size() + kMaxEdits);
  constexpr std::uint8_t kTooMany = kMaxEdits + 1;
  // What both begin or end with is not edited.
  const auto [a_begin, b_begin] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), is_same);
  a = {a_begin, a.end()};
  b = {b_begin, b.end()};
  while (!a.empty() && !b.empty() && is_same(a.back(), b.back())) {
    a.remove_suffix(1);
    b.remove_suffix(1);
  }
  using Row = std::array<std::uint8_t, kMaxNameBytes + 2>;
  Row before_last{};
  Row last{};
  Row row{};
  std::iota(last.begin(), last.end(), std::uint8_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    const std::size_t from = i > kMaxEdits ? i - kMaxEdits : 1;
    const std::size_t to = std::min(b.size(), i + kMaxEdits);
    row[from - 1] = from == 1 ? static_cast<std::uint8_t>(i) : kTooMany;
    std::uint8_t fewest = row[from - 1];
    for (std::size_t j = from; j <= to; ++j) {
      int edits = std::min(
          {last[j] + 1, row[j - 1] + 1, last[j - 1] + (is_same(a[i - 1], b[j - 1]) ? 0 : 1)});
      const bool is_swapped =
          i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1]);
      if (is_swapped) edits = std::min(edits, before_last[j - 2] + 1);
      row[j] = static_cast<std::uint8_t>(edits);
      fewest = std::min(fewest, row[j]);
    }
    if (fewest > kMaxEdits) return kTooMany;
    row[to + 1] = kTooMany;  // The next row looks at one character more.
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
