#include "replay/differences.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::replay {
namespace {

/// Adds a key of so many requests, of which each of two limits denies the first few.
void add_key(Tally& tally, std::string_view key, int requests, int denied_one, int denied_two) {
  for (int i = 0; i < requests; ++i) {
    const Tally::KeyId id = tally.count(key, 0);
    if (i < denied_one) tally.count_denied(0, id, 0);
    if (i < denied_two) tally.count_denied(1, id, 0);
  }
}

TEST(ShareHistogram, PutsEachKeyIntoOneBin) {
  Tally tally({"one", "two"});
  add_key(tally, "none", 5, 0, 0);
  add_key(tally, "a tenth", 10, 1, 0);
  add_key(tally, "a bit more", 100, 11, 0);
  add_key(tally, "almost all", 1000, 999, 0);
  add_key(tally, "all", 3, 3, 0);
  EXPECT_EQ(share_histogram(tally, 0), (ShareHistogram{1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(share_histogram(tally, 1), (ShareHistogram{5}));
}

TEST(OnlyDenied, ListsTheKeysThatOneLimitDeniesAndTheOtherNever) {
  Tally tally({"one", "two"});
  add_key(tally, "both", 5, 1, 5);
  add_key(tally, "second", 5, 0, 2);
  add_key(tally, "second, more", 7, 0, 3);
  add_key(tally, "first", 5, 1, 0);
  const Difference newly = only_denied(tally, 1, 0);
  EXPECT_EQ(newly.keys, 2U);
  ASSERT_EQ(newly.most_denied.size(), 2U);
  EXPECT_EQ(newly.most_denied[0].key, "second, more");
  EXPECT_EQ(newly.most_denied[0].denied, 3U);
  EXPECT_EQ(newly.most_denied[0].requests, 7U);
  EXPECT_EQ(only_denied(tally, 0, 1).most_denied[0].key, "first");
}

TEST(OnlyDenied, ListsOnlyTheMostDenied) {
  Tally tally({"one", "two"});
  for (int i = 0; i < 30; ++i) add_key(tally, std::to_string(i), 30, 0, i);
  const Difference newly = only_denied(tally, 1, 0);
  EXPECT_EQ(newly.keys, 29U);
  ASSERT_EQ(newly.most_denied.size(), kMostDifferent);
  EXPECT_EQ(newly.most_denied.back().key, "20");
}

}  // namespace
}  // namespace sluice::replay
