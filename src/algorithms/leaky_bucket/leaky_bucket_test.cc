#include "algorithms/leaky_bucket/leaky_bucket.h"

#include <gtest/gtest.h>

#include "algorithms/token_bucket/token_bucket.h"
#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<LeakyBucket>;
using std::chrono::nanoseconds;

static_assert(sizeof(LeakyBucket::State) == 8);

constexpr std::int64_t kIntervalNs = 100 * kMillisecondNs;

TEST(LeakyBucketTest, CallersGoAheadOneByOne) {
  Key key("leaky_bucket 10/1s queue=50");
  EXPECT_EQ(key.params().interval_ns(), kIntervalNs);
  for (std::int64_t i = 0; i <= 50; ++i) {
    EXPECT_EQ(key.take({.now = 0}), admit({.limit = 51,
                                           .remaining = 50 - i,
                                           .reset_ns = (i + 1) * kIntervalNs,
                                           .delay_ns = i * kIntervalNs}));
  }
  EXPECT_EQ(key.take({.now = 0}),
            deny({.limit = 51, .retry_ns = kIntervalNs, .reset_ns = 5100 * kMillisecondNs}));
  EXPECT_EQ(key.take({.now = kIntervalNs - 1}).retry_after, nanoseconds(1));
  EXPECT_EQ(key.take({.now = kIntervalNs}).delay, nanoseconds(5 * kSecondNs));
}

TEST(LeakyBucketTest, AStandingQueueMakesEveryCallerWait) {
  Key key("leaky_bucket 10/1s queue=50");
  EXPECT_EQ(key.drain(0), 51);
  // Callers arrive exactly as fast as they are served, and each still waits for the whole queue.
  for (std::int64_t i = 1; i <= 1000; ++i) {
    EXPECT_EQ(key.take({.now = i * kIntervalNs}).delay, nanoseconds(5 * kSecondNs));
  }
}

TEST(LeakyBucketTest, IdleTimeIsLost) {
  Key leaky("leaky_bucket 10/1s queue=9");
  AlgorithmKey<TokenBucket> token("token_bucket 10/1s");
  const Instant after_an_hour = 60 * kMinuteNs;
  nanoseconds last_leaky{0};
  for (int i = 0; i < 10; ++i) {
    last_leaky = leaky.take({.now = after_an_hour}).delay;
    EXPECT_EQ(token.take({.now = after_an_hour}).delay, nanoseconds(0));
  }
  EXPECT_EQ(last_leaky, nanoseconds(900 * kMillisecondNs));
}

TEST(LeakyBucketTest, TheSpacingGrowsWithTheCost) {
  Key key("leaky_bucket 10/1s queue=4");
  EXPECT_EQ(key.take({.now = 0, .cost = 3}),
            admit({.limit = 5, .remaining = 2, .reset_ns = 300 * kMillisecondNs}));
  EXPECT_EQ(key.take({.now = 0}).delay, nanoseconds(300 * kMillisecondNs));
  EXPECT_EQ(
      key.take({.now = 0, .cost = 2}),
      deny(
          {.limit = 5, .remaining = 1, .retry_ns = kIntervalNs, .reset_ns = 400 * kMillisecondNs}));
  EXPECT_EQ(key.take({.now = 0, .cost = 6}).retry_after, kNever);
}

TEST(LeakyBucketTest, WithoutAQueueAdmitsOneAtATime) {
  Key key("leaky_bucket 10/1s queue=0");
  EXPECT_EQ(key.take({.now = 0}), admit({.limit = 1, .reset_ns = kIntervalNs}));
  EXPECT_EQ(key.take({.now = 0}),
            deny({.limit = 1, .retry_ns = kIntervalNs, .reset_ns = kIntervalNs}));
  EXPECT_EQ(key.take({.now = kIntervalNs}).delay, nanoseconds(0));
  EXPECT_EQ(key.take({.now = kIntervalNs, .cost = 2}).retry_after, kNever);
}

TEST(LeakyBucketTest, PatienceDeniesLongWaits) {
  Key key("leaky_bucket 10/1s queue=50");
  const Call patient{.now = 0, .cost = 1, .patience_ns = 250 * kMillisecondNs};
  for (const std::int64_t delay_ms : {0, 100, 200}) {
    EXPECT_EQ(key.take(patient).delay, nanoseconds(delay_ms * kMillisecondNs));
  }
  EXPECT_EQ(key.take(patient), deny({.limit = 51,
                                     .remaining = 48,
                                     .retry_ns = 50 * kMillisecondNs,
                                     .reset_ns = 300 * kMillisecondNs}));
  EXPECT_EQ(key.drain(0), 48);
  // Denied for two reasons: the queue has room after 100 ms; the wait is short enough only later.
  EXPECT_EQ(key.take(patient).retry_after, nanoseconds(4850 * kMillisecondNs));
}

TEST(LeakyBucketTest, PatienceNeverLengthensTheQueue) {
  for (const std::int64_t patience_ns : {kDefaultPatience, 5 * kSecondNs, kMaxInt64}) {
    Key key("leaky_bucket 10/1s queue=50");
    const Call patient{.now = 0, .cost = 1, .patience_ns = patience_ns};
    for (int i = 0; i <= 50; ++i) EXPECT_TRUE(key.take(patient).allowed);
    EXPECT_EQ(key.take(patient).retry_after, nanoseconds(kIntervalNs));
  }
}

TEST(LeakyBucketTest, APeekHasNoDelay) {
  Key key("leaky_bucket 10/1s queue=50");
  EXPECT_EQ(key.drain(0), 51);
  EXPECT_EQ(key.take({.now = 0, .cost = 0}),
            admit({.limit = 51, .reset_ns = 5100 * kMillisecondNs}));
  EXPECT_EQ(key.refund({.now = 0, .cost = 50}),
            admit({.limit = 51, .remaining = 50, .reset_ns = kIntervalNs}));
  EXPECT_EQ(key.refund({.now = 0, .cost = 2}), admit({.limit = 51, .remaining = 51}));
}

TEST(LeakyBucketTest, TheExtremesOfADefinitionDoNotOverflow) {
  Key key("leaky_bucket 1/1ns queue=9007199254740990");
  const Instant late = kEndOfTime - 1;
  EXPECT_EQ(key.take({.now = late, .cost = kMaxCount}),
            admit({.limit = kMaxCount, .reset_ns = kMaxCount}));
  EXPECT_EQ(key.take({.now = late}),
            deny({.limit = kMaxCount, .retry_ns = 1, .reset_ns = kMaxCount}));
  EXPECT_EQ(key.take({.now = late, .cost = kMaxInt64}).retry_after, kNever);
}

TEST(LeakyBucketTest, DescribesItselfCanonically) {
  EXPECT_EQ(LeakyBucket::describe(Key("leaky_bucket 600/60s queue=0").params()),
            "leaky_bucket 600/1m queue=0");
  EXPECT_THROW(Key("leaky_bucket 10/1s"), InvalidLimit);
  EXPECT_THROW(Key("leaky_bucket 10/1s queue=9007199254740991"), InvalidLimit);
  EXPECT_THROW(Key("leaky_bucket 1/2305843009213693952ns queue=1"), InvalidLimit);
}

TEST(LeakyBucketTest, AChargeMakesTheQueueLongerThanItsLimit) {
  Key key("leaky_bucket 1/1s queue=1");
  EXPECT_EQ(key.charge({.now = 0, .cost = 5}), admit({.limit = 2, .reset_ns = 5 * kSecondNs}));
  EXPECT_EQ(key.take({.now = 0}).retry_after.count(), 4 * kSecondNs);
  EXPECT_EQ(key.take({.now = 4 * kSecondNs}).delay.count(), kSecondNs);
  EXPECT_EQ(key.charge({.now = 0, .cost = kMaxInt64}).reset_after.count(), kMaxInt64);
}

}  // namespace
}  // namespace sluice
