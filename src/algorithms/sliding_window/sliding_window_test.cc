#include "algorithms/sliding_window/sliding_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<SlidingWindow>;
using std::chrono::nanoseconds;

constexpr const char* kStrict = "sliding_window 1000/1h";
constexpr const char* kClassic = "sliding_window 1000/1h strict=no";

TEST(SlidingWindowTest, DividesTheWindow) {
  struct Row {
    const char* expression;
    std::int64_t precision_ns;
    std::int64_t lifetime_ns;
  };
  for (const Row& row :
       {Row{kStrict, 6 * kMinuteNs, 66 * kMinuteNs}, Row{kClassic, 6 * kMinuteNs, kHourNs},
        Row{"sliding_window 1000/1h precision=60s", kMinuteNs, 61 * kMinuteNs},
        Row{"sliding_window 10/1m precision=25s", 25 * kSecondNs, 100 * kSecondNs},
        Row{"sliding_window 10/1m precision=25s strict=no", 25 * kSecondNs, 75 * kSecondNs},
        Row{"sliding_window 10/1m precision=1m", kMinuteNs, 2 * kMinuteNs},
        Row{"sliding_window 10/11ns", 2, 14}, Row{"sliding_window 10/1ns", 1, 2}}) {
    const Key key(row.expression);
    EXPECT_EQ(key.params().precision_ns(), row.precision_ns) << row.expression;
    EXPECT_EQ(key.params().lifetime_ns, row.lifetime_ns) << row.expression;
  }
}

TEST(SlidingWindowTest, StrictReturnsUnitsUpToOneSubWindowLate) {
  struct Row {
    Instant spent;
    std::int64_t age_ns;
  };
  const Instant back = 66 * kMinuteNs;
  // The first and the last instant of one sub-window: both units return when it stops counting.
  for (const Row& row : {Row{0, kHourNs + 6 * kMinuteNs}, Row{6 * kMinuteNs - 1, kHourNs + 1}}) {
    Key key(kStrict);
    EXPECT_EQ(key.take({.now = row.spent, .cost = 1000}),
              admit({.limit = 1000, .reset_ns = row.age_ns}));
    EXPECT_EQ(key.take({.now = row.spent}).retry_after, nanoseconds(row.age_ns));
    EXPECT_EQ(key.take({.now = back - 1}).retry_after, nanoseconds(1));
    EXPECT_EQ(key.take({.now = back, .cost = 1000}).remaining, 0);
  }
}

TEST(SlidingWindowTest, LatenessGrowsWithThePrecision) {
  struct Row {
    const char* expression;
    std::int64_t late_ns;
  };
  for (const Row& row : {Row{"sliding_window 10/1h precision=60s", kMinuteNs},
                         Row{"sliding_window 10/1m precision=25s", 40 * kSecondNs},
                         Row{"sliding_window 10/1m precision=1m", kMinuteNs}}) {
    Key key(row.expression);
    EXPECT_EQ(key.drain(0), 10);
    EXPECT_EQ(key.take({.now = 0}).retry_after, nanoseconds(key.params().window_ns + row.late_ns));
  }
}

TEST(SlidingWindowTest, ClassicAdmitsTwiceTheLimit) {
  Key key(kClassic);
  // 2000 within 54 minutes and 1 ns.
  EXPECT_TRUE(key.take({.now = 6 * kMinuteNs - 1, .cost = 1000}).allowed);
  EXPECT_EQ(key.take({.now = kHourNs - 1}).retry_after, nanoseconds(1));
  EXPECT_TRUE(key.take({.now = kHourNs, .cost = 1000}).allowed);
}

// The most units in any interval [t, t + W), for a caller that takes all it can get, starting at
// the end of a sub-window of 7 ns.
std::int64_t most_within_a_window(std::string_view expression) {
  Key key(expression);
  const auto window = static_cast<std::size_t>(key.params().window_ns);
  std::vector<std::int64_t> admitted(50 * window, 0);
  std::int64_t within = 0;
  std::int64_t most = 0;
  for (std::size_t now = 6; now < admitted.size(); ++now) {
    const std::int64_t cost = now % 7 == 6 ? 5 : 1;
    const Call call{.now = static_cast<Instant>(now), .cost = cost};
    if (key.take(call).allowed) admitted[now] = cost;
    within += admitted[now];
    if (now >= window) within -= admitted[now - window];
    most = std::max(most, within);
  }
  return most;
}

TEST(SlidingWindowTest, StrictNeverAdmitsMoreThanTheLimitWithinTheWindow) {
  EXPECT_EQ(most_within_a_window("sliding_window 20/70ns precision=7ns"), 20);
  EXPECT_LE(most_within_a_window("sliding_window 20/64ns precision=7ns"), 20);
  EXPECT_LE(most_within_a_window("sliding_window 20/14ns precision=14ns"), 20);
  EXPECT_GT(most_within_a_window("sliding_window 20/70ns precision=7ns strict=no"), 20);
}

TEST(SlidingWindowTest, KeepsOneEntryForEachSubWindow) {
  Key key("sliding_window 1000000/1h");
  for (Instant now = 0; now < 3 * kHourNs; now += 10 * kSecondNs) {
    ASSERT_TRUE(key.take({.now = now}).allowed);
    ASSERT_LE(key.state().size, 11U);
  }
  EXPECT_EQ(key.state().size, 11U);
  static_assert(11 * sizeof(RingEntry) == 176);
  static_assert((SlidingWindow::kMaxSubWindows + 1) * sizeof(RingEntry) == 16'016);
}

TEST(SlidingWindowTest, TimeNeverRunsBackwardsForAKey) {
  Key key(kStrict);
  const Instant newest = 100 * kMinuteNs;  // in the sub-window that starts at minute 96
  EXPECT_TRUE(key.take({.now = newest, .cost = 999}).allowed);
  EXPECT_EQ(key.take({.now = 90 * kMinuteNs}),
            admit({.limit = 1000, .reset_ns = (96 + 66 - 90) * kMinuteNs}));
  EXPECT_EQ(key.state().size, 1U);
  EXPECT_EQ(key.take({.now = 90 * kMinuteNs}).retry_after, nanoseconds(72 * kMinuteNs));
}

TEST(SlidingWindowTest, WaitsForTheSubWindowsThatMustStopCounting) {
  Key key("sliding_window 10/10s");
  for (std::int64_t second = 0; second < 10; ++second) key.take({.now = second * kSecondNs});
  const Instant now = 9 * kSecondNs;
  for (std::int64_t cost = 1; cost <= 10; ++cost) {
    EXPECT_EQ(key.take({.now = now, .cost = cost}),
              deny({.limit = 10,
                    .retry_ns = (11 + cost - 1) * kSecondNs - now,
                    .reset_ns = 11 * kSecondNs}));
  }
  EXPECT_EQ(key.take({.now = now, .cost = 11}).retry_after, kNever);
}

TEST(SlidingWindowTest, RefundsTheNewestFirst) {
  Key key("sliding_window 10/10s");
  key.take({.now = 0, .cost = 4});
  key.take({.now = 5 * kSecondNs, .cost = 4});
  EXPECT_EQ(key.refund({.now = 6 * kSecondNs, .cost = 5}),
            admit({.limit = 10, .remaining = 7, .reset_ns = 5 * kSecondNs}));
  EXPECT_EQ(key.refund({.now = 6 * kSecondNs, .cost = 5}), admit({.limit = 10, .remaining = 10}));
}

TEST(SlidingWindowTest, TheExtremesOfADefinitionDoNotOverflow) {
  const char* const widest =
      "sliding_window 9007199254740991/2305843009213693952ns precision=2305843009213693952ns";
  Key key(widest);
  EXPECT_EQ(key.params().lifetime_ns, kEndOfTime);
  const Instant late = kEndOfTime - 1;
  EXPECT_TRUE(key.take({.now = late, .cost = kMaxCount}).allowed);
  // Recorded at the start of the last sub-window.
  EXPECT_EQ(key.take({.now = late}).retry_after, nanoseconds(kMaxDurationNs + 1));
  EXPECT_THROW(Key("sliding_window 1/2305843009213693952ns precision=2305843009213693951ns"),
               InvalidLimit);
}

TEST(SlidingWindowTest, DescribesItselfCanonically) {
  const auto canonical = [](const char* expression) {
    return SlidingWindow::describe(Key(expression).params());
  };
  EXPECT_EQ(canonical("sliding_window 1000/1h precision=6m strict=yes"), kStrict);
  EXPECT_EQ(canonical("sliding_window 10/1m strict=no precision=25s"),
            "sliding_window 10/1m precision=25s strict=no");
  EXPECT_NO_THROW(Key("sliding_window 1/1000s precision=1s"));
  EXPECT_THROW(Key("sliding_window 1/1001s precision=1s"), InvalidLimit);
  EXPECT_THROW(Key("sliding_window 1/1m precision=61s"), InvalidLimit);
}

TEST(SlidingWindowTest, AChargeCountsBeyondTheLimitUntilItsSubWindowStopsCounting) {
  Key key("sliding_window 5/10s precision=5s");
  EXPECT_EQ(key.charge({.now = 0, .cost = 3}).remaining, 2);
  EXPECT_EQ(key.charge({.now = 5 * kSecondNs, .cost = kMaxInt64}).remaining, 0);
  EXPECT_EQ(key.take({.now = 6 * kSecondNs}).retry_after.count(), 14 * kSecondNs);
  EXPECT_EQ(key.charge({.now = 6 * kSecondNs}).remaining, 0);
  EXPECT_EQ(key.refund({.now = 6 * kSecondNs, .cost = kMaxCount - 4}).remaining, 1);
}

}  // namespace
}  // namespace sluice
