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

}  // namespace
}  // namespace sluice
