#include "model/model.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::model {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t kSecond = 1'000'000'000;

// Examples that were computed by hand, to check the model itself.
class ModelTest : public testing::Test {
 protected:
  Decision take(const ModelLimits& limits, Instant now, std::int64_t cost = 1,
                std::int64_t patience_ns = kDefaultPatience) {
    return model_.decide(
        {.space = "s", .limits = limits, .key = "k", .cost = cost, .patience_ns = patience_ns},
        now);
  }
  Decision refund(const ModelLimits& limits, Instant now, std::int64_t cost) {
    return ask(Operation::kRefund, limits, now, cost);
  }
  Decision ask(Operation operation, const ModelLimits& limits, Instant now, std::int64_t cost) {
    return model_.decide(
        {.space = "s", .limits = limits, .key = "k", .operation = operation, .cost = cost}, now);
  }
  Decision block(const ModelLimits& limits, Instant now, std::int64_t duration_ns) {
    return model_.decide({.space = "s",
                          .limits = limits,
                          .key = "k",
                          .operation = Operation::kBlock,
                          .duration_ns = duration_ns},
                         now);
  }
  Decision permit(Operation operation, const ModelLimits& limits, Instant now, PermitId id) {
    return model_.decide(
        {.space = "s", .limits = limits, .key = "k", .operation = operation, .permit = id}, now);
  }

  Model model_;
};

TEST_F(ModelTest, TokenBucketAnswersAsClThrottle) {
  const ModelLimits limit{{.count = 30, .window_ns = 60 * kSecond, .burst = 16}};
  for (std::int64_t i = 1; i <= 16; ++i) {
    EXPECT_EQ(take(limit, 5), (Decision{.allowed = true,
                                        .limit = 16,
                                        .remaining = 16 - i,
                                        .reset_after = nanoseconds(2 * i * kSecond)}));
  }
  EXPECT_EQ(take(limit, 5), (Decision{.limit = 16,
                                      .retry_after = nanoseconds(2 * kSecond),
                                      .reset_after = nanoseconds(32 * kSecond)}));
  EXPECT_EQ(take(limit, 5, 17).retry_after, kNever);
  EXPECT_EQ(refund(limit, 5, 3).remaining, 3);
}

TEST_F(ModelTest, ReservationWaitsAtMostItsPatience) {
  const ModelLimits limit{{.count = 1, .window_ns = 10}};
  EXPECT_TRUE(take(limit, 100).allowed);
  EXPECT_EQ(take(limit, 100, 1, 9).retry_after, nanoseconds(1));
  const Decision reserved = take(limit, 100, 1, 10);
  EXPECT_TRUE(reserved.allowed);
  EXPECT_EQ(reserved.delay, nanoseconds(10));
  EXPECT_EQ(reserved.reset_after, nanoseconds(20));
}

TEST_F(ModelTest, ABorrowerPassesAndTheNextCallerWaits) {
  const ModelLimits limit{{.count = 1, .window_ns = 10, .borrow = true}};
  EXPECT_TRUE(take(limit, 100, 5).allowed);
  const Decision denied = take(limit, 100, 1);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.retry_after, nanoseconds(40));
  EXPECT_EQ(denied.remaining, 0);
  EXPECT_EQ(take(limit, 100, kMaxCount * 64).retry_after, nanoseconds(40));
  EXPECT_EQ(take(limit, kEndOfTime - 1, std::int64_t{1} << 62).retry_after, kNever);
}

TEST_F(ModelTest, LeakyBucketLeavesAtAConstantRate) {
  const ModelLimits limit{{.kind = Kind::kLeakyBucket, .count = 1, .window_ns = 10, .queue = 2}};
  EXPECT_EQ(take(limit, 100).delay, nanoseconds(0));
  EXPECT_EQ(take(limit, 100).delay, nanoseconds(10));
  EXPECT_EQ(take(limit, 100, 1, 5).retry_after, nanoseconds(15));
  EXPECT_EQ(take(limit, 100).delay, nanoseconds(20));
  EXPECT_EQ(take(limit, 100).retry_after, nanoseconds(10));
}

TEST_F(ModelTest, FixedWindowEndsWithTheClockOrAfterItsFirst) {
  const ModelLimits clock{{.kind = Kind::kFixedWindow, .count = 1, .window_ns = 10}};
  EXPECT_TRUE(take(clock, 17).allowed);
  EXPECT_EQ(take(clock, 18).retry_after, nanoseconds(2));
  EXPECT_EQ(take(clock, 3).retry_after, nanoseconds(17));
  EXPECT_TRUE(take(clock, 20).allowed);

  const ModelLimits first{
      {.kind = Kind::kFixedWindow, .count = 1, .window_ns = 10, .anchor_first = true}};
  EXPECT_TRUE(take(first, 17).allowed);
  EXPECT_EQ(take(first, 18).retry_after, nanoseconds(9));
  EXPECT_TRUE(take(first, 27).allowed);
  EXPECT_EQ(take(first, 36).reset_after, nanoseconds(1));
}

TEST_F(ModelTest, SlidingLogDropsEachEntryAfterTheWindow) {
  const ModelLimits limit{{.kind = Kind::kSlidingLog, .count = 3, .window_ns = 10}};
  EXPECT_EQ(take(limit, 100, 2).remaining, 1);
  EXPECT_EQ(take(limit, 104, 1).reset_after, nanoseconds(10));
  EXPECT_EQ(take(limit, 105, 2).retry_after, nanoseconds(5));
  EXPECT_EQ(take(limit, 105, 3).retry_after, nanoseconds(9));
  EXPECT_EQ(take(limit, 105, 4).retry_after, kNever);
  EXPECT_TRUE(take(limit, 110, 2).allowed);
}

TEST_F(ModelTest, SlidingWindowReturnsUnitsBySubWindows) {
  const ModelLimits strict{
      {.kind = Kind::kSlidingWindow, .count = 1, .window_ns = 10, .precision_ns = 5}};
  EXPECT_EQ(take(strict, 103).reset_after, nanoseconds(12));
  EXPECT_EQ(take(strict, 104).retry_after, nanoseconds(11));
  ModelLimits loose = strict;
  loose.front().strict = false;
  EXPECT_EQ(take(loose, 104).retry_after, nanoseconds(6));
  EXPECT_TRUE(take(loose, 110).allowed);
}

TEST_F(ModelTest, SlidingCounterFadesThePreviousWindow) {
  const ModelLimits limit{{.kind = Kind::kSlidingCounter, .count = 4, .window_ns = 100}};
  EXPECT_EQ(take(limit, 150, 4).reset_after, nanoseconds(150));
  EXPECT_EQ(take(limit, 160).retry_after, nanoseconds(65));
  EXPECT_EQ(take(limit, 225).remaining, 0);
  EXPECT_EQ(take(limit, 250).remaining, 0);
  EXPECT_EQ(take(limit, 299, 0).remaining, 1);
}

TEST_F(ModelTest, PartsAdmitTogetherOrNotAtAll) {
  const ModelLimits both{{.count = 2, .window_ns = 20},
                         {.kind = Kind::kFixedWindow, .count = 5, .window_ns = 1000}};
  EXPECT_EQ(
      take(both, 100, 2),
      (Decision{.allowed = true, .limit = 2, .remaining = 0, .reset_after = nanoseconds(20)}));
  EXPECT_EQ(take(both, 120, 2).remaining, 0);
  const Decision denied = take(both, 140, 2);
  EXPECT_EQ(denied, (Decision{.binding = 1,
                              .limit = 5,
                              .remaining = 1,
                              .retry_after = nanoseconds(860),
                              .reset_after = nanoseconds(860)}));
}

TEST_F(ModelTest, AChargeMayGoIntoDebt) {
  const ModelLimits bucket{{.count = 1, .window_ns = 10, .burst = 2}};
  const Decision charged = ask(Operation::kCharge, bucket, 100, 5);
  EXPECT_EQ(charged, (Decision{.allowed = true, .limit = 2, .reset_after = nanoseconds(50)}));
  EXPECT_EQ(take(bucket, 100).retry_after, nanoseconds(40));
  EXPECT_EQ(ask(Operation::kCharge, bucket, 100, kEndOfTime).reset_after,
            nanoseconds(std::numeric_limits<std::int64_t>::max() - 100));
  EXPECT_EQ(take(bucket, 100).retry_after, kNever);
}

TEST_F(ModelTest, ChargedUnitsStopCountingAfterTheWindow) {
  const ModelLimits log{{.kind = Kind::kSlidingLog, .count = 3, .window_ns = 10}};
  EXPECT_EQ(ask(Operation::kCharge, log, 100, 2).remaining, 1);
  EXPECT_EQ(ask(Operation::kCharge, log, 103, kMaxCount).remaining, 0);
  EXPECT_EQ(take(log, 110).retry_after, nanoseconds(3));
  EXPECT_EQ(refund(log, 111, kMaxCount - 5).remaining, 0);
  EXPECT_EQ(refund(log, 111, 1).remaining, 1);
}

TEST_F(ModelTest, TakesAsManyAsRemain) {
  const ModelLimits both{{.count = 4, .window_ns = 40, .borrow = true},
                         {.kind = Kind::kFixedWindow, .count = 5, .window_ns = 1000}};
  EXPECT_EQ(ask(Operation::kTakeUpTo, both, 100, 3).taken, 3);
  const Decision rest = ask(Operation::kTakeUpTo, both, 100, 3);
  EXPECT_TRUE(rest.allowed);
  EXPECT_EQ(rest.taken, 1);
  const Decision none = ask(Operation::kTakeUpTo, both, 100, 3);
  EXPECT_FALSE(none.allowed);
  EXPECT_EQ(none.taken, 0);
  EXPECT_EQ(none.retry_after, nanoseconds(10));
  EXPECT_TRUE(ask(Operation::kTakeUpTo, both, 100, 0).allowed);
}

TEST_F(ModelTest, ABlockDeniesUntilItEnds) {
  const ModelLimits limit{{.count = 2, .window_ns = 20}};
  take(limit, 100);
  EXPECT_EQ(block(limit, 100, 50),
            (Decision{.allowed = true, .limit = 2, .reset_after = nanoseconds(50)}));
  EXPECT_EQ(block(limit, 110, 10).reset_after, nanoseconds(40));
  EXPECT_EQ(take(limit, 120).retry_after, nanoseconds(30));
  EXPECT_EQ(take(limit, 120, 3).retry_after, kNever);
  EXPECT_TRUE(ask(Operation::kCharge, limit, 149, 2).allowed);
  EXPECT_EQ(take(limit, 149).retry_after, nanoseconds(10));
  EXPECT_EQ(take(limit, 150, 0).remaining, 0);
  EXPECT_TRUE(take(limit, 159).allowed);
  block(limit, 159, 50);
  ask(Operation::kReset, limit, 159, 0);
  EXPECT_EQ(take(limit, 159).remaining, 1);
}

TEST_F(ModelTest, PermitsAreReleasedOrExpire) {
  const ModelLimits limit{{.kind = Kind::kConcurrency, .count = 2, .window_ns = 10}};
  EXPECT_EQ(permit(Operation::kTake, limit, 100, 1).remaining, 1);
  EXPECT_EQ(permit(Operation::kTake, limit, 103, 2).reset_after, nanoseconds(10));
  EXPECT_EQ(permit(Operation::kTake, limit, 104, 3),
            (Decision{.limit = 2, .retry_after = nanoseconds(6), .reset_after = nanoseconds(9)}));
  EXPECT_TRUE(permit(Operation::kRenew, limit, 105, 1).allowed);
  EXPECT_EQ(permit(Operation::kTake, limit, 105, 3).retry_after, nanoseconds(8));
  EXPECT_EQ(permit(Operation::kRelease, limit, 106, 2).remaining, 1);
  EXPECT_EQ(permit(Operation::kRelease, limit, 106, 2).retry_after, kNever);
  EXPECT_FALSE(permit(Operation::kRenew, limit, 115, 1).allowed);
  EXPECT_EQ(ask(Operation::kTake, limit, 106, 2).retry_after, kNever);
  EXPECT_EQ(
      permit(Operation::kTake, ModelLimits{{.kind = Kind::kConcurrency, .window_ns = 10}}, 106, 4)
          .retry_after,
      nanoseconds(9));
}

TEST_F(ModelTest, TheNumbersAreThoseOfTheBindingPart) {
  const ModelLimits limits{{.kind = Kind::kFixedWindow, .count = 9, .window_ns = 1000},
                           {.kind = Kind::kFixedWindow, .count = 2, .window_ns = 10},
                           {.kind = Kind::kFixedWindow, .count = 2, .window_ns = 100}};
  EXPECT_EQ(take(limits, 5), (Decision{.allowed = true,
                                       .binding = 1,
                                       .limit = 2,
                                       .remaining = 1,
                                       .reset_after = nanoseconds(5)}));
  EXPECT_EQ(take(limits, 5, 2), (Decision{.binding = 2,
                                          .limit = 2,
                                          .remaining = 1,
                                          .retry_after = nanoseconds(95),
                                          .reset_after = nanoseconds(95)}));
  EXPECT_EQ(
      model_.parts()[0],
      (Decision{.allowed = true, .limit = 9, .remaining = 8, .reset_after = nanoseconds(995)}));
  EXPECT_EQ(take(limits, 5, 3).binding, 1);
}

TEST_F(ModelTest, AListChargesAllOrNone) {
  const ModelLimits limit{{.kind = Kind::kFixedWindow, .count = 1, .window_ns = 10}};
  const ModelRequest a{.space = "s", .limits = limit, .key = "a"};
  const ModelRequest b{.space = "s", .limits = limit, .key = "b"};
  EXPECT_TRUE(model_.decide(a, 5).allowed);
  EXPECT_FALSE(model_.decide_all({a, b}, 5).allowed);
  EXPECT_EQ(model_.parts()[0],
            (Decision{.limit = 1, .retry_after = nanoseconds(5), .reset_after = nanoseconds(5)}));
  EXPECT_EQ(model_.parts()[1], (Decision{.allowed = true, .limit = 1, .remaining = 1}));
  EXPECT_TRUE(model_.decide(b, 5).allowed);
}

}  // namespace
}  // namespace sluice::model
