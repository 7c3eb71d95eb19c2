#include "replay/sweep.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::replay {
namespace {

TEST(ScaledExpression, ScalesUnitsOnly) {
  EXPECT_EQ(scaled_expression("fixed_window 100/1h30m", 50), "fixed_window 50/1h30m");
  EXPECT_EQ(scaled_expression("token_bucket 100/1s burst=200 borrow=yes", 25),
            "token_bucket 25/1s burst=50 borrow=yes");
  EXPECT_EQ(scaled_expression("leaky_bucket 10/1s queue=50", 150), "leaky_bucket 15/1s queue=75");
  EXPECT_EQ(scaled_expression("sliding_window 30/1m precision=1s & fixed_window 1000/1d", 200),
            "sliding_window 60/1m precision=1s & fixed_window 2000/1d");
  EXPECT_EQ(scaled_expression("concurrency 100 lease=30s", 400), "concurrency 400 lease=30s");
}

TEST(ScaledExpression, RoundsDownToAtLeastOne) {
  EXPECT_EQ(scaled_expression("sliding_log 5/10m", 25), "sliding_log 1/10m");
  EXPECT_EQ(scaled_expression("sliding_log 1/10m", 75), "sliding_log 1/10m");
  EXPECT_EQ(scaled_expression("leaky_bucket 8/1s queue=0", 25), "leaky_bucket 2/1s queue=0");
}

/// Asks for a key with the number that it has in the alphabet, so often at once.
void ask(Sweep& sweep, char key, int times) {
  const std::string text(1, key);
  std::vector<Request> requests(static_cast<std::size_t>(times));
  const std::vector<Tally::KeyId> ids(requests.size(), static_cast<Tally::KeyId>(key - 'a'));
  for (Request& request : requests) request.key = text;
  sweep.decide(requests, ids, 0);
}

// 200 % of the first limit and 50 % of the third are the second, and so on.
TEST(Sweep, DecidesByEachVersionAlone) {
  const std::vector<Limit> limits = {Limit("fixed_window 10/1m"), Limit("fixed_window 20/1m"),
                                     Limit("fixed_window 40/1m")};
  const auto ask_all = [](Sweep& sweep) {
    for (char key = 'a'; key <= 'z'; ++key) ask(sweep, key, 3 * (key - 'a' + 1));
  };
  Sweep together(limits);
  ask_all(together);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    Sweep alone({limits[i]});
    ask_all(alone);
    const auto expected = alone.result(0)->points;
    const auto points = together.result(i)->points;
    ASSERT_EQ(points.size(), expected.size());
    for (std::size_t n = 0; n < points.size(); ++n) {
      EXPECT_EQ(points[n].expression, expected[n].expression);
      EXPECT_EQ(points[n].keys_limited, expected[n].keys_limited) << points[n].expression;
    }
  }
}

TEST(Sweep, LeavesOutVersionsThatAreEqualOrOutOfRange) {
  // The smaller versions of the first are itself, and so is 1.5.
  Sweep sweep({Limit("sliding_log 1/1m"), Limit("fixed_window 9007199254740991/1m")});
  ask(sweep, 'a', 1);
  const auto percents_of = [&](std::size_t limit) {
    const auto result = sweep.result(limit);
    std::vector<int> percents;
    for (const SweepPoint& point : result->points) percents.push_back(point.percent);
    return percents;
  };
  EXPECT_EQ(percents_of(0), (std::vector<int>{200, 400}));
  EXPECT_EQ(percents_of(1), (std::vector<int>{25, 50, 75}));
  EXPECT_EQ(sweep.result(0)->keys, 1U);
  EXPECT_FALSE(sweep.result(0)->is_sample);
}

/// Asks once or twice for each of many keys.
void ask_many(Sweep& sweep, Tally::KeyId keys) {
  for (Tally::KeyId id = 0; id < keys; ++id) {
    const std::string key = "key " + std::to_string(id);
    for (Tally::KeyId times = 0; times <= id % 2; ++times) {
      std::vector<Request> requests(1);
      requests[0].key = key;
      sweep.decide(requests, std::vector{id}, 0);
    }
  }
}

// A half of all keys ask twice.
TEST(Sweep, EstimatesFromASampleOfManyKeys) {
  Sweep sweep({Limit("fixed_window 4/1m")});
  constexpr Tally::KeyId kKeys = 100'000;
  ask_many(sweep, kKeys);
  const auto result = sweep.result(0);
  EXPECT_TRUE(result->is_sample);
  EXPECT_LE(result->keys, Sweep::kFirstKeys + Sweep::kMaxLaterKeys);
  EXPECT_GT(result->keys, Sweep::kFirstKeys + Sweep::kMaxLaterKeys / 4);
  ASSERT_EQ(result->points.front().expression, "fixed_window 1/1m");
  EXPECT_NEAR(static_cast<double>(result->points.front().keys_limited), kKeys / 2.0, kKeys / 40.0);
  EXPECT_EQ(result->points.back().keys_limited, 0U);
}

// The first keys are all followed, so what they alone are denied is no estimate.
TEST(Sweep, CountsTheFirstKeysExactly) {
  Sweep sweep({Limit("fixed_window 8/1m")});
  for (char key = 'a'; key < 'h'; ++key) ask(sweep, key, 20);
  ask_many(sweep, 100'000);
  const auto result = sweep.result(0);
  EXPECT_TRUE(result->is_sample);
  ASSERT_EQ(result->points[4].expression, "fixed_window 16/1m");
  EXPECT_EQ(result->points[4].keys_limited, 7U);
}

TEST(Sweep, HasNoResultIfItsStatesDoNotFit) {
  Sweep sweep({Limit("fixed_window 8/1m")}, std::size_t{1} << 20);
  ask_many(sweep, 50'000);
  EXPECT_FALSE(sweep.result(0).has_value());
}

}  // namespace
}  // namespace sluice::replay
