#include "algorithms/token_bucket/token_bucket.h"

#include <gtest/gtest.h>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<TokenBucket>;
using std::chrono::nanoseconds;

static_assert(sizeof(TokenBucket::State) == 8);

TokenBucket::Params params_of(std::string_view expression) {
  return Key(expression).params();
}

TEST(TokenBucketTest, StartsFullAndRefillsUnitByUnit) {
  Key key("token_bucket 100/1s burst=200");
  EXPECT_EQ(key.params().interval_ns(), 10 * kMillisecondNs);
  EXPECT_EQ(key.params().tolerance_ns, 2 * kSecondNs);

  EXPECT_EQ(key.take({.now = 0, .cost = 200}), admit({.limit = 200, .reset_ns = 2 * kSecondNs}));
  EXPECT_EQ(key.take({.now = 0}),
            deny({.limit = 200, .retry_ns = 10 * kMillisecondNs, .reset_ns = 2 * kSecondNs}));
  EXPECT_EQ(key.take({.now = 0, .cost = 150}),
            deny({.limit = 200, .retry_ns = 1500 * kMillisecondNs, .reset_ns = 2 * kSecondNs}));
  EXPECT_EQ(key.take({.now = 0, .cost = 201}),
            deny({.limit = 200, .retry_ns = kNever.count(), .reset_ns = 2 * kSecondNs}));

  const Instant enough = 1500 * kMillisecondNs;
  EXPECT_EQ(key.take({.now = enough - 1, .cost = 150}).retry_after, nanoseconds(1));
  EXPECT_EQ(key.take({.now = enough, .cost = 0}),
            admit({.limit = 200, .remaining = 150, .reset_ns = 500 * kMillisecondNs}));
  EXPECT_EQ(key.take({.now = enough, .cost = 150}),
            admit({.limit = 200, .reset_ns = 2 * kSecondNs}));
}

TEST(TokenBucketTest, AdmitsBurstPlusRateInOneSecond) {
  Key key("token_bucket 100/1s burst=200");
  std::int64_t admitted = 0;
  for (Instant now = 0; now <= kSecondNs; now += kMillisecondNs) admitted += key.drain(now);
  EXPECT_EQ(admitted, 300);
}

TEST(TokenBucketTest, AnswersSeventeenCallersAsThrottleDoes) {
  Key key("token_bucket 30/1m burst=16");
  const Instant now = 1'700'000'000 * kSecondNs;
  for (std::int64_t i = 1; i <= 16; ++i) {
    EXPECT_EQ(key.take({.now = now}),
              admit({.limit = 16, .remaining = 16 - i, .reset_ns = 2 * i * kSecondNs}));
  }
  EXPECT_EQ(key.take({.now = now}),
            deny({.limit = 16, .retry_ns = 2 * kSecondNs, .reset_ns = 32 * kSecondNs}));
}

TEST(TokenBucketTest, RoundsTheIntervalUp) {
  EXPECT_EQ(params_of("token_bucket 3/1s").interval_ns(), 333'333'334);
  EXPECT_EQ(params_of("token_bucket 3/1s").tolerance_ns, 1'000'000'002);
  EXPECT_EQ(params_of("token_bucket 700000000/1s").interval_ns(), 2);
  EXPECT_EQ(params_of("token_bucket 1500000000/1s").interval_ns(), 1);
}

TEST(TokenBucketTest, ReservesWithPatience) {
  Key key("token_bucket 10/1s");
  EXPECT_EQ(key.drain(0), 10);
  const std::int64_t patience_ns = 250 * kMillisecondNs;
  const Call patient{.now = 0, .cost = 1, .patience_ns = patience_ns};
  EXPECT_EQ(
      key.take(patient),
      admit({.limit = 10, .reset_ns = 1100 * kMillisecondNs, .delay_ns = 100 * kMillisecondNs}));
  EXPECT_EQ(
      key.take(patient),
      admit({.limit = 10, .reset_ns = 1200 * kMillisecondNs, .delay_ns = 200 * kMillisecondNs}));
  EXPECT_EQ(
      key.take(patient),
      deny({.limit = 10, .retry_ns = 50 * kMillisecondNs, .reset_ns = 1200 * kMillisecondNs}));
  const Instant later = 50 * kMillisecondNs;
  EXPECT_EQ(key.take({.now = later - 1, .cost = 1, .patience_ns = patience_ns}).retry_after,
            nanoseconds(1));
  EXPECT_EQ(key.take({.now = later, .cost = 1, .patience_ns = patience_ns}).delay,
            nanoseconds(patience_ns));
}

TEST(TokenBucketTest, TheDefaultPatienceIsZero) {
  for (const std::int64_t patience_ns : {kDefaultPatience, std::int64_t{0}}) {
    Key key("token_bucket 10/1s");
    EXPECT_EQ(key.take({.now = 0, .cost = 10, .patience_ns = patience_ns}).delay, nanoseconds(0));
    EXPECT_EQ(key.take({.now = 0, .cost = 1, .patience_ns = patience_ns}).retry_after,
              nanoseconds(100 * kMillisecondNs));
  }
}

TEST(TokenBucketTest, ABorrowerPassesAndTheNextCallerWaits) {
  Key key("token_bucket 10/1s borrow=yes");
  EXPECT_EQ(key.take({.now = 0, .cost = 25}),
            admit({.limit = 10, .reset_ns = 2500 * kMillisecondNs}));
  // The cost of the next caller does not matter: it waits until earlier debts are paid.
  for (const std::int64_t cost : {1, 10, 1000}) {
    EXPECT_EQ(
        key.take({.now = 0, .cost = cost}),
        deny({.limit = 10, .retry_ns = 1500 * kMillisecondNs, .reset_ns = 2500 * kMillisecondNs}));
  }
  const Instant paid = 1500 * kMillisecondNs;
  EXPECT_EQ(key.take({.now = paid - 1}).retry_after, nanoseconds(1));
  EXPECT_EQ(key.take({.now = paid, .cost = 0}).remaining, 0);
  EXPECT_EQ(key.take({.now = paid, .cost = 25}),
            admit({.limit = 10, .reset_ns = 3500 * kMillisecondNs}));
}

TEST(TokenBucketTest, ABorrowerWithPatienceWaitsForEarlierDebts) {
  Key key("token_bucket 10/1s borrow=yes");
  EXPECT_TRUE(key.take({.now = 0, .cost = 25}).allowed);
  EXPECT_EQ(key.take({.now = 0, .cost = 1, .patience_ns = 1500 * kMillisecondNs - 1}),
            deny({.limit = 10, .retry_ns = 1, .reset_ns = 2500 * kMillisecondNs}));
  EXPECT_EQ(
      key.take({.now = 0, .cost = 1, .patience_ns = 1500 * kMillisecondNs}),
      admit({.limit = 10, .reset_ns = 2600 * kMillisecondNs, .delay_ns = 1500 * kMillisecondNs}));
}

TEST(TokenBucketTest, DeniesForEverACostThatOverflows) {
  Key borrowing("token_bucket 10/1s borrow=yes");
  const Instant late = kEndOfTime - 1;
  const std::int64_t most = (kMaxInt64 - late) / (100 * kMillisecondNs);
  EXPECT_EQ(borrowing.take({.now = late, .cost = most + 1}).retry_after, kNever);
  EXPECT_EQ(borrowing.take({.now = late, .cost = kMaxInt64}).retry_after, kNever);
  EXPECT_TRUE(borrowing.take({.now = late, .cost = most}).allowed);

  Key reserving("token_bucket 1/1ns");
  EXPECT_EQ(reserving.take({.now = 0, .cost = kMaxInt64}).retry_after, kNever);
}

TEST(TokenBucketTest, TheExtremesOfADefinitionDoNotOverflow) {
  Key key("token_bucket 1/2305843009213693952ns");
  const Instant late = kEndOfTime - 1;
  EXPECT_EQ(key.take({.now = late}), admit({.limit = 1, .reset_ns = kMaxDurationNs}));
  EXPECT_EQ(key.take({.now = late}),
            deny({.limit = 1, .retry_ns = kMaxDurationNs, .reset_ns = kMaxDurationNs}));
  // With the longest patience, up to the last instant that fits an int64.
  const Call patient{.now = late, .cost = 1, .patience_ns = kMaxInt64};
  EXPECT_EQ(key.take(patient).delay, nanoseconds(kMaxDurationNs));
  EXPECT_EQ(key.take(patient).retry_after, kNever);

  EXPECT_EQ(params_of("token_bucket 9007199254740991/1s").tolerance_ns, kMaxCount);
}

TEST(TokenBucketTest, RefundsUpToFull) {
  Key key("token_bucket 10/1s");
  EXPECT_EQ(key.take({.now = 0, .cost = 4}).remaining, 6);
  EXPECT_EQ(key.refund({.now = 0, .cost = 3}),
            admit({.limit = 10, .remaining = 9, .reset_ns = 100 * kMillisecondNs}));
  EXPECT_EQ(key.refund({.now = 0, .cost = 5}), admit({.limit = 10, .remaining = 10}));
  EXPECT_EQ(key.refund({.now = 0, .cost = kMaxInt64}), admit({.limit = 10, .remaining = 10}));
  // Not below now: a caller whose clock is behind does not find more units.
  key.take({.now = kSecondNs});
  key.refund({.now = kSecondNs, .cost = 5});
  EXPECT_EQ(key.state().tat_ns, kSecondNs);
}

TEST(TokenBucketTest, ACallerWhoseClockIsBehindSeesTheSameState) {
  Key key("token_bucket 10/1s");
  EXPECT_TRUE(key.take({.now = 10 * kSecondNs}).allowed);
  EXPECT_EQ(
      key.take({.now = 9 * kSecondNs}),
      deny({.limit = 10, .retry_ns = 200 * kMillisecondNs, .reset_ns = 1100 * kMillisecondNs}));
}

TEST(TokenBucketTest, AChangedLimitReadsTheKeptState) {
  Key key("token_bucket 10/1s");
  EXPECT_EQ(key.drain(0), 10);
  key.redefine("token_bucket 20/1s burst=40");
  // One second is spent; one of the new limit's two units is left.
  EXPECT_EQ(key.take({.now = 0, .cost = 0}),
            admit({.limit = 40, .remaining = 20, .reset_ns = kSecondNs}));
}

TEST(TokenBucketTest, DescribesItselfCanonically) {
  EXPECT_EQ(TokenBucket::describe(params_of("gcra 100/s burst=100 borrow=no")),
            "token_bucket 100/1s");
  EXPECT_EQ(TokenBucket::describe(params_of("token_bucket 1/90s borrow=yes burst=5")),
            "token_bucket 1/1m30s burst=5 borrow=yes");
  EXPECT_THROW(params_of("token_bucket 3/2305843009213693952ns"), InvalidLimit);
}

TEST(TokenBucketTest, AChargeGoesIntoDebtWhichTimePaysBack) {
  Key key("token_bucket 1/1s burst=2");
  EXPECT_EQ(key.charge({.now = 0, .cost = 0}), admit({.limit = 2, .remaining = 2}));
  EXPECT_EQ(key.charge({.now = 0, .cost = 5}), admit({.limit = 2, .reset_ns = 5 * kSecondNs}));
  EXPECT_EQ(key.take({.now = 0}).retry_after, nanoseconds(4 * kSecondNs));
  EXPECT_EQ(key.charge({.now = kSecondNs}).reset_after, nanoseconds(5 * kSecondNs));
  EXPECT_EQ(key.refund({.now = kSecondNs, .cost = 4}).remaining, 1);
}

TEST(TokenBucketTest, AChargeStopsAtTheLargestInstant) {
  Key key("token_bucket 1/1s burst=2 borrow=yes");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(key.charge({.now = 5, .cost = kMaxInt64}),
              admit({.limit = 2, .reset_ns = kMaxInt64 - 5}));
  }
  EXPECT_EQ(key.take({.now = 5, .cost = 0}).remaining, 0);
  EXPECT_EQ(key.take({.now = kEndOfTime - 1}).retry_after, kNever);
  EXPECT_EQ(key.refund({.now = 5, .cost = kMaxInt64}), admit({.limit = 2, .remaining = 2}));
}

TEST(TokenBucketTest, TakesOnlyUnspentUnitsIfAsked) {
  Key key("token_bucket 1/1s burst=2 borrow=yes");
  EXPECT_EQ(key.take({.now = 0, .cost = 3, .unspent_only = true}).retry_after, kNever);
  EXPECT_TRUE(key.take({.now = 0, .cost = 2, .unspent_only = true}).allowed);
  EXPECT_EQ(key.take({.now = 0, .unspent_only = true}).retry_after, nanoseconds(kSecondNs));
}

}  // namespace
}  // namespace sluice
