#include "core/permits.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace sluice {
namespace {

// Applies a change to entries with exactly the necessary room.
std::vector<PermitEntry> changed(std::vector<PermitEntry> entries, const PermitChange& change) {
  const auto size = static_cast<std::uint32_t>(entries.size());
  const std::uint32_t after = change.size_after(size);
  entries.resize(std::max(size, after));
  EXPECT_EQ(commit_permits(entries, size, change), after);
  entries.resize(after);
  return entries;
}

RC_GTEST_PROP(PermitsTest, StayOrderedByExpiry, ()) {
  std::vector<PermitEntry> entries;
  PermitId last = 0;
  const auto moves = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000));
  for (const int move : moves) {
    const auto size = static_cast<std::uint32_t>(entries.size());
    PermitChange change{.added = {}};
    change.expired = move % 29 == 0 ? size : move % 7 == 0 ? size / 3 : 0;
    if (move % 3 == 0 && size > change.expired) {
      change.gone = change.expired + static_cast<std::uint32_t>(move) % (size - change.expired);
    }
    if (move % 4 != 0) change.added = {move, ++last};
    std::vector<PermitEntry> expected;
    for (std::uint32_t i = change.expired; i < size; ++i) {
      if (i != change.gone) expected.push_back(entries[i]);
    }
    if (change.added.id != 0) expected.push_back(change.added);
    std::ranges::stable_sort(expected, {}, &PermitEntry::expires_ns);
    entries = changed(entries, change);
    RC_ASSERT(entries == expected);
  }
}

}  // namespace
}  // namespace sluice
