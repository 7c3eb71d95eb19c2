#include "replay/tally.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::replay {
namespace {

TEST(Tally, WithoutDenialsThereIsNoWorstMinute) {
  Tally tally({"one"});
  tally.count("a");
  EXPECT_FALSE(tally.summary().limits[0].worst_minute.has_value());
  EXPECT_TRUE(tally.summary().limits[0].most_denied.empty());
}

TEST(Tally, TheWorstMinuteIsTheEarliestOfEquals) {
  Tally tally({"one"});
  const auto deny = [&](Instant time_ns) { tally.count_denied(0, tally.count("a"), time_ns); };
  for (const Instant minute : {7, 3, 5, 3, 7}) deny(minute * kMinuteNs + minute);
  const auto worst = tally.summary().limits[0].worst_minute;
  ASSERT_TRUE(worst.has_value());
  EXPECT_EQ(worst->start_ns, 3 * kMinuteNs);
  EXPECT_EQ(worst->denied, 2U);
}

TEST(Tally, TheTenDeniedMostTiesByBytes) {
  Tally tally({"one"});
  for (int i = 99; i >= 0; --i) {
    const auto key = tally.count("k" + std::to_string(i / 10) + std::to_string(i % 10));
    tally.count_denied(0, key, 0);
    if (i == 50) tally.count_denied(0, key, 0);
  }
  const auto most = tally.summary().limits[0].most_denied;
  ASSERT_EQ(most.size(), kMostDenied);
  EXPECT_EQ(most[0].key, "k50");
  for (std::size_t i = 1; i < most.size(); ++i)
    EXPECT_EQ(most[i].key, "k0" + std::to_string(i - 1));
}

TEST(Tally, KeysMayHaveAnyBytes) {
  Tally tally({});
  const std::string zero("a\0b", 3);
  EXPECT_EQ(tally.count(zero), 0U);
  EXPECT_EQ(tally.count("a"), 1U);
  EXPECT_EQ(tally.count(zero), 0U);
  for (int i = 0; i < 10'000; ++i) tally.count(std::to_string(i));
  EXPECT_EQ(tally.count("a"), 1U);
  EXPECT_EQ(tally.summary().keys_seen, 10'002U);
}

/// Adds a key of so many requests, of which each of two limits denies the first few.
void add_key(Tally& tally, std::string_view key, int requests, int denied_one, int denied_two) {
  for (int i = 0; i < requests; ++i) {
    const Tally::KeyId id = tally.count(key);
    if (i < denied_one) tally.count_denied(0, id, 0);
    if (i < denied_two) tally.count_denied(1, id, 0);
  }
}

TEST(Shares, PutsEachKeyIntoOneBin) {
  Tally tally({"one", "two"});
  add_key(tally, "none", 5, 0, 0);
  add_key(tally, "a tenth", 10, 1, 0);
  add_key(tally, "a bit more", 100, 11, 0);
  add_key(tally, "almost all", 1000, 999, 0);
  add_key(tally, "all", 3, 3, 0);
  EXPECT_EQ(tally.shares(0), (ShareHistogram{1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(tally.shares(1), (ShareHistogram{5}));
}

TEST(OnlyDenied, ListsTheKeysThatOneLimitDeniesAndTheOtherNever) {
  Tally tally({"one", "two"});
  add_key(tally, "both", 5, 1, 5);
  add_key(tally, "second", 5, 0, 2);
  add_key(tally, "second, more", 7, 0, 3);
  add_key(tally, "first", 5, 1, 0);
  const LimitSummary newly = tally.only_denied(1, 0);
  EXPECT_EQ(newly.keys_limited, 2U);
  ASSERT_EQ(newly.most_denied.size(), 2U);
  EXPECT_EQ(newly.most_denied[0].key, "second, more");
  EXPECT_EQ(newly.most_denied[0].denied, 3U);
  EXPECT_EQ(newly.most_denied[0].requests, 7U);
  EXPECT_EQ(tally.only_denied(0, 1).most_denied[0].key, "first");
}

TEST(OnlyDenied, ListsOnlyTheMostDenied) {
  Tally tally({"one", "two"});
  for (int i = 0; i < 30; ++i) add_key(tally, std::to_string(i), 30, 0, i);
  const LimitSummary newly = tally.only_denied(1, 0);
  EXPECT_EQ(newly.keys_limited, 29U);
  ASSERT_EQ(newly.most_denied.size(), kMostDenied);
  EXPECT_EQ(newly.most_denied.back().key, "20");
}

}  // namespace
}  // namespace sluice::replay
