#include "algorithms/leaky_bucket/leaky_bucket.h"

#include <gtest/gtest.h>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<LeakyBucket>;

static_assert(sizeof(LeakyBucket::State) == 8);

TEST(LeakyBucketTest, TheExtremesOfADefinitionDoNotOverflow) {
  Key key("leaky_bucket 1/1ns queue=9007199254740990");
  const Instant late = kEndOfTime - 1;
  EXPECT_EQ(key.take({.now = late, .cost = kMaxCount}),
            admit({.limit = kMaxCount, .reset_ns = kMaxCount}));
  EXPECT_EQ(key.take({.now = late}),
            deny({.limit = kMaxCount, .retry_ns = 1, .reset_ns = kMaxCount}));
  EXPECT_EQ(key.take({.now = late, .cost = kMaxInt64}).retry_after, kNever);
}

}  // namespace
}  // namespace sluice
