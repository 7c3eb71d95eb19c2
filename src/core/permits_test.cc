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

TEST(PermitsTest, AFreshKeyHasNone) {
  EXPECT_TRUE(changed({}, {}).empty());
  EXPECT_EQ(changed({}, {.added = {5, 1}}), (std::vector<PermitEntry>{{5, 1}}));
}

TEST(PermitsTest, RemovesAndAddsPermits) {
  const std::vector<PermitEntry> three{{10, 1}, {20, 2}, {30, 3}};
  EXPECT_EQ(changed(three, {.gone = 1, .added = {}}), (std::vector<PermitEntry>{{10, 1}, {30, 3}}));
  EXPECT_EQ(changed(three, {.expired = 1, .gone = 2, .added = {15, 3}}),
            (std::vector<PermitEntry>{{15, 3}, {20, 2}}));
  EXPECT_EQ(changed(three, {.expired = 3, .added = {}}), std::vector<PermitEntry>{});
  EXPECT_EQ(changed(three, {.gone = 0, .added = {30, 4}}),
            (std::vector<PermitEntry>{{20, 2}, {30, 3}, {30, 4}}));
}

RC_GTEST_PROP(PermitsTest, StayOrderedByExpiry, ()) {
  std::vector<PermitEntry> entries;
  PermitId last = 0;
  const auto moves = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000));
  for (const int move : moves) {
    const auto size = static_cast<std::uint32_t>(entries.size());
    PermitChange change{.added = {}};
    change.expired = move % 7 == 0 ? size / 3 : 0;
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
