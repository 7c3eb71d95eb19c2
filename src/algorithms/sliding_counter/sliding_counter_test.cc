#include "algorithms/sliding_counter/sliding_counter.h"

#include <gtest/gtest.h>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<SlidingCounter>;
using std::chrono::nanoseconds;

static_assert(sizeof(SlidingCounter::State) == 24);

TEST(SlidingCounterTest, RetryAfterEndsAtTheFirstNanosecondThatAdmits) {
  struct Row {
    const char* expression;
    Instant spent_at;
    std::int64_t spent;
    Instant now;
    std::int64_t cost;
  };
  for (const Row& row :
       {Row{"sliding_counter 3/7ns", 6, 3, 6, 1}, Row{"sliding_counter 3/7ns", 0, 3, 8, 3},
        Row{"sliding_counter 1/1ns", 5, 1, 5, 1}, Row{"sliding_counter 100/1m", 0, 100, 0, 100},
        Row{"sliding_counter 7/1h", 11, 7, 12, 2},
        Row{"sliding_counter 1000003/1d", 77, 999'999, 78, 17},
        Row{"sliding_counter 9007199254740991/9007199254740992ns", 1, kMaxCount, 2, 1},
        Row{"sliding_counter 9007199254740991/9007199254740992ns", 1, kMaxCount, 2, kMaxCount},
        Row{"sliding_counter 1/9007199254740992ns", kEndOfTime - 2, 1, kEndOfTime - 1, 1},
        Row{"sliding_counter 9007199254740991/1ns", 1, kMaxCount, 1, kMaxCount}}) {
    Key key(row.expression);
    ASSERT_TRUE(key.take({.now = row.spent_at, .cost = row.spent}).allowed) << row.expression;
    const Decision denied = key.take({.now = row.now, .cost = row.cost});
    ASSERT_FALSE(denied.allowed) << row.expression;
    const Instant first = row.now + denied.retry_after.count();
    ASSERT_GT(first, row.now) << row.expression;
    EXPECT_EQ(key.take({.now = first - 1, .cost = row.cost}).retry_after, nanoseconds(1))
        << row.expression;
    EXPECT_TRUE(key.take({.now = first, .cost = row.cost}).allowed) << row.expression;
  }
}

TEST(SlidingCounterTest, RetryAfterIsExactForLargeDoubles) {
  // With sums near 2^53 the estimate stays constant for long and then steps, because of rounding,
  // far from where integers would.
  for (const char* expression : {"sliding_counter 9007199254740991/9007199254740992ns",
                                 "sliding_counter 9007199254740991/1000003ns"}) {
    for (std::int64_t i = 1; i <= 300; ++i) {
      Key key(expression);
      const std::int64_t window_ns = key.params().window_ns();
      const std::int64_t before = 1 + i * i * i;
      ASSERT_TRUE(key.take({.now = 0, .cost = before}).allowed);
      const Instant now = window_ns + window_ns / 1000 * i;
      const std::int64_t room = key.take({.now = now, .cost = 0}).remaining;
      ASSERT_TRUE(key.take({.now = now, .cost = room - before / 7}).allowed);
      const std::int64_t cost = 1 + before / 6;
      const std::int64_t wait_ns = key.take({.now = now, .cost = cost}).retry_after.count();
      ASSERT_GT(wait_ns, 0);
      EXPECT_FALSE(key.take({.now = now + wait_ns - 1, .cost = cost}).allowed) << i;
      EXPECT_TRUE(key.take({.now = now + wait_ns, .cost = cost}).allowed) << i;
    }
  }
}

TEST(SlidingCounterTest, RemainingIsTheLargestCostThatIsAdmitted) {
  // Sums near 2^53 are rounded; `remaining` must agree with the same rounded test.
  for (const std::int64_t spent :
       {std::int64_t{1}, std::int64_t{3}, kMaxCount / 3, kMaxCount - 1}) {
    for (const Instant now : {10, 11, 13, 16, 18, 19}) {
      Key key("sliding_counter 9007199254740991/10ns");
      ASSERT_TRUE(key.take({.now = 9, .cost = spent}).allowed);
      const std::int64_t remaining = key.take({.now = now, .cost = 0}).remaining;
      EXPECT_FALSE(key.take({.now = now, .cost = remaining + 1}).allowed) << spent << " " << now;
      if (remaining > 0) {
        EXPECT_TRUE(key.take({.now = now, .cost = remaining}).allowed) << spent << " " << now;
      }
    }
  }
}

TEST(SlidingCounterTest, AChargeStopsAtTheLargestCount) {
  Key key("sliding_counter 4/10s");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(key.charge({.now = 0, .cost = kMaxInt64}).remaining, 0);
  EXPECT_EQ(key.state().current, kMaxCount);
  EXPECT_EQ(key.charge({.now = 10 * kSecondNs, .cost = kMaxInt64}).remaining, 0);
  const Decision denied = key.take({.now = 10 * kSecondNs});
  EXPECT_FALSE(key.take({.now = 10 * kSecondNs + denied.retry_after.count() - 1}).allowed);
  EXPECT_TRUE(key.take({.now = 10 * kSecondNs + denied.retry_after.count()}).allowed);
}

}  // namespace
}  // namespace sluice
