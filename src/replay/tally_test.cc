#include "replay/tally.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::replay {
namespace {

TEST(Tally, TheWorstMinuteIsTheEarliestOfEquals) {
  Tally tally({"one", "without denials"});
  const auto deny = [&](Instant time_ns) { tally.count_denied(0, tally.count("a"), time_ns); };
  for (const Instant minute : {7, 3, 5, 3, 7}) deny(minute * kMinuteNs + minute);
  const auto worst = tally.summary().limits[0].worst_minute;
  ASSERT_TRUE(worst.has_value());
  EXPECT_EQ(worst->start_ns, 3 * kMinuteNs);
  EXPECT_EQ(worst->denied, 2U);
  EXPECT_FALSE(tally.summary().limits[1].worst_minute);
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

TEST(Shares, PutsEachKeyIntoOneBin) {
  struct Row {
    const char* key;
    int requests;
    int denied;
  };
  Tally tally({"one", "two"});
  for (const Row& row : {Row{"none", 5, 0}, Row{"a tenth", 10, 1}, Row{"a bit more", 100, 11},
                         Row{"almost all", 1000, 999}, Row{"all", 3, 3}}) {
    for (int i = 0; i < row.requests; ++i) {
      const Tally::KeyId id = tally.count(row.key);
      if (i < row.denied) tally.count_denied(0, id, 0);
    }
  }
  EXPECT_EQ(tally.shares(0), (ShareHistogram{1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(tally.shares(1), (ShareHistogram{5}));
}

}  // namespace
}  // namespace sluice::replay
