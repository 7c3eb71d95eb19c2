#include "algorithms/token_bucket/token_bucket.h"

#include <gtest/gtest.h>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<TokenBucket>;
using std::chrono::nanoseconds;

static_assert(sizeof(TokenBucket::State) == 8);

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

  EXPECT_EQ(Key("token_bucket 9007199254740991/1s").params().tolerance_ns, kMaxCount);
}

}  // namespace
}  // namespace sluice
