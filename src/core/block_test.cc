#include "core/block.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using std::chrono::nanoseconds;

TEST(BlockTest, DeniesTakes) {
  EXPECT_TRUE(takes(Operation::kTake, 1));
  EXPECT_TRUE(takes(Operation::kTakeUpTo, 1));
  EXPECT_FALSE(takes(Operation::kTake, 0));
  EXPECT_FALSE(takes(Operation::kTakeUpTo, 0));
  for (const Operation operation : {Operation::kCharge, Operation::kRefund, Operation::kBlock,
                                    Operation::kReset, Operation::kRenew, Operation::kRelease}) {
    EXPECT_FALSE(takes(operation, 1));
  }
}

TEST(BlockTest, RetryAfterIsTheLongerOfTheTwo) {
  const Decision peek{.allowed = true, .limit = 5, .remaining = 3, .reset_after = nanoseconds(4)};
  const Decision blocked{
      .limit = 5, .retry_after = nanoseconds(10), .reset_after = nanoseconds(10)};
  EXPECT_EQ(block_decision(peek, true, 100, 110), blocked);

  Decision denied{.limit = 5, .retry_after = nanoseconds(30), .reset_after = nanoseconds(40)};
  EXPECT_EQ(block_decision(denied, true, 100, 110), denied);
  denied.retry_after = kNever;
  EXPECT_EQ(block_decision(denied, true, 100, 110).retry_after, kNever);
}

TEST(BlockTest, OtherOperationsPassAndSeeNoUnits) {
  const Decision peek{.allowed = true, .limit = 5, .remaining = 3, .reset_after = nanoseconds(40)};
  Decision expected = peek;
  expected.remaining = 0;
  EXPECT_EQ(block_decision(peek, false, 100, 110), expected);
  const Decision not_held{.limit = 5, .remaining = 5, .retry_after = kNever};
  const Decision blocked = block_decision(not_held, false, 100, 110);
  EXPECT_FALSE(blocked.allowed);
  EXPECT_EQ(blocked.retry_after, kNever);
  EXPECT_EQ(blocked.reset_after, nanoseconds(10));
}

TEST(BlockTest, EndsWithTheLongerBlock) {
  EXPECT_EQ(block_until(0, 100, 10), 110);
  EXPECT_EQ(block_until(120, 100, 10), 120);
  EXPECT_EQ(block_until(105, 100, 10), 110);
  EXPECT_EQ(block_until(0, kEndOfTime - 1, kMaxDurationNs), kEndOfTime - 1 + kMaxDurationNs);
}

}  // namespace
}  // namespace sluice
