#include <gmock/gmock.h>

#include "core/arithmetic.h"
#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;

/// What a FallbackStore does with the operations that are not a take.
class FallbackOperationsTest : public FallbackFixture {
 protected:
  Decision charge(std::int64_t units) {
    return decide({.cost = units, .operation = Operation::kCharge});
  }
  Decision take_up_to(std::int64_t units) {
    return decide({.cost = units, .operation = Operation::kTakeUpTo});
  }
  Decision block(std::int64_t duration_ns) {
    return decide({.operation = Operation::kBlock, .duration_ns = duration_ns});
  }
  Decision peek() { return decide({.cost = 0}); }
};

TEST_F(FallbackOperationsTest, LocalStatesFollowThem) {
  wrap({});
  EXPECT_EQ(charge(3).remaining, 7);
  EXPECT_EQ(take_up_to(5).taken, 5);
  EXPECT_EQ(take_up_to(5).taken, 2);
  EXPECT_FALSE(take_up_to(5).allowed);
  inner_->lose_all();
  EXPECT_EQ(peek().source, Source::kLocal);
  EXPECT_EQ(peek().remaining, 0);
  EXPECT_EQ(decide({.cost = 4, .operation = Operation::kRefund}).remaining, 4);
}

TEST_F(FallbackOperationsTest, LocalStatesFollowADebt) {
  wrap({}, "token_bucket 10/10h");
  charge(25);
  inner_->lose_all();
  EXPECT_GT(decide(Ask{}).retry_after, nanoseconds(15 * kHourNs));
}

TEST_F(FallbackOperationsTest, LocalStatesFollowABlock) {
  wrap({});
  EXPECT_EQ(block(5 * kHourNs).remaining, 0);
  inner_->lose_all();
  const Decision denied = decide(Ask{});
  EXPECT_FALSE(denied.allowed);
  EXPECT_GT(denied.retry_after, nanoseconds(4 * kHourNs));
  decide({.operation = Operation::kReset});
  EXPECT_TRUE(decide(Ask{}).allowed);
}

TEST_F(FallbackOperationsTest, HappenToTheLocalStatesWhereTheStoreIsLost) {
  wrap({});
  inner_->lose_all();
  const Decision charged = charge(4);
  EXPECT_TRUE(charged.allowed);
  EXPECT_EQ(charged.source, Source::kLocal);
  EXPECT_EQ(charged.remaining, 6);
  const Decision taken = take_up_to(9);
  EXPECT_EQ(taken.taken, 6);
  EXPECT_EQ(taken.source, Source::kLocal);
  EXPECT_EQ(block(5 * kHourNs).source, Source::kLocal);
  EXPECT_GT(decide(Ask{}).retry_after, nanoseconds(4 * kHourNs));
  EXPECT_EQ(store_->counters().local_answers, 4U);
}

TEST_F(FallbackOperationsTest, AShareOfTheLimitIsTakenInWholeUnits) {
  wrap({.local_share = 4}, "token_bucket 42/1h");
  EXPECT_EQ(take_up_to(3).taken, 3);
  inner_->lose_all();
  // 42 - 3 * 4 = 30 are left, which is 7 and a half.
  const Decision taken = take_up_to(20);
  EXPECT_TRUE(taken.allowed);
  EXPECT_EQ(taken.taken, 7);
  EXPECT_EQ(taken.remaining, 0);
  const Decision none = take_up_to(1);
  EXPECT_FALSE(none.allowed);
  EXPECT_EQ(none.taken, 0);
  EXPECT_GT(none.retry_after, nanoseconds(0));
  EXPECT_EQ(take_up_to(0).taken, 0);
}

// A unit here is four there: of 42, two are left over when ten have been taken.
TEST_F(FallbackOperationsTest, WhatIsNoWholeUnitIsNotTaken) {
  wrap({.local_share = 4}, "token_bucket 42/42h");
  inner_->lose_all();
  const auto take_up_to_at = [&](Instant now) {
    return decide({.cost = 20, .operation = Operation::kTakeUpTo}, now);
  };
  EXPECT_EQ(take_up_to_at(kStart).taken, 10);
  EXPECT_EQ(take_up_to_at(kStart).taken, 0);
  EXPECT_EQ(take_up_to_at(kStart + 2 * kHourNs - 1).taken, 0);
  // Two more have come back: with the two that were left they are one.
  const Decision one = take_up_to_at(kStart + 2 * kHourNs);
  EXPECT_TRUE(one.allowed);
  EXPECT_EQ(one.taken, 1);
}

TEST_F(FallbackOperationsTest, AreAllowedByPolicy) {
  wrap({.on_failure = OnFailure::kAllow});
  inner_->lose_all();
  EXPECT_EQ(take_up_to(7),
            (Decision{.allowed = true, .source = Source::kPolicy, .limit = 10, .taken = 7}));
  EXPECT_EQ(charge(7), (Decision{.allowed = true, .source = Source::kPolicy, .limit = 10}));
}

TEST_F(FallbackOperationsTest, AreDeniedByPolicyWhereTheyTake) {
  wrap({.on_failure = OnFailure::kDeny});
  inner_->lose_all();
  EXPECT_EQ(take_up_to(7), (Decision{.source = Source::kPolicy,
                                     .limit = 10,
                                     .retry_after = kPolicyWait,
                                     .reset_after = kPolicyWait}));
  EXPECT_TRUE(charge(7).allowed);
  EXPECT_TRUE(block(1).allowed);
  EXPECT_TRUE(take_up_to(0).allowed);
}

TEST_F(FallbackOperationsTest, AreRaisedByPolicy) {
  wrap({.on_failure = OnFailure::kRaise});
  inner_->lose_all();
  EXPECT_THROW(charge(1), StoreError);
  EXPECT_THROW(take_up_to(1), StoreError);
  EXPECT_THROW(block(1), StoreError);
}

TEST_F(FallbackOperationsTest, WhatIsDeniedStaysSo) {
  wrap({});
  decide({.cost = 10});
  decide(Ask{});
  charge(1);
  block(kHourNs);
  inner_->asked.clear();
  EXPECT_EQ(decide(Ask{}).source, Source::kCache);
  EXPECT_TRUE(inner_->asked.empty());
  EXPECT_EQ(take_up_to(1).source, Source::kStore) << "a take of what remains always asks";
  EXPECT_EQ(decide(Ask{}).source, Source::kCache);
}

TEST_F(FallbackOperationsTest, ADenialOfWhatRemainsIsNotRemembered) {
  wrap({});
  decide({.cost = 10});
  EXPECT_FALSE(take_up_to(5).allowed);
  EXPECT_EQ(decide({.cost = 5}).source, Source::kStore);
}

// The store never had them.
TEST_F(FallbackOperationsTest, GivesBackToWhoGave) {
  wrap({});
  decide({.cost = 6}, kStart);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 3}, kStart).source, Source::kLocal);
  inner_->lose_nothing();
  inner_->asked.clear();
  const Ask refund{.cost = 3, .operation = Operation::kRefund, .giver = Source::kLocal};
  const Decision given = decide(refund, kStart);
  EXPECT_EQ(given.source, Source::kLocal);
  EXPECT_EQ(given.remaining, 4);
  EXPECT_TRUE(decide({.cost = 3, .operation = Operation::kRefund, .giver = Source::kPolicy}, kStart)
                  .allowed);
  EXPECT_TRUE(inner_->asked.empty());
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 4);
  EXPECT_EQ(store_->counters().unanswered, 1U);
}

TEST_F(FallbackOperationsTest, ASpaceThatOthersHoldDoesNotGiveWay) {
  wrap({}, "fixed_window 5/1h");
  decide({.cost = 5});
  decide(Ask{});
  const Limit other("sliding_log 7/1h", "limit");
  EXPECT_THROW(store_->open_space(other.definition()), StoreError);
  const auto former = space_;
  EXPECT_THROW(store_->replace_space(space_, other.definition()), StoreError) << "by two";
}

TEST_F(FallbackOperationsTest, ASpaceThatOneHoldsGivesWay) {
  wrap({}, "fixed_window 5/1h");
  decide({.cost = 5});
  decide(Ask{});
  const Limit other("sliding_log 7/1h", "limit");
  const auto attachment = space_->attachment<int>();
  const auto fresh = store_->replace_space(space_, other.definition());
  ASSERT_NE(fresh, space_);
  EXPECT_EQ(fresh->attachment<int>(), attachment);
  space_ = fresh;
  *limit_ = other;
  EXPECT_EQ(decide({.cost = 3}).remaining, 4) << "its keys are fresh";
  inner_->lose_all();
  EXPECT_EQ(peek().remaining, 4) << "here, too";
  EXPECT_EQ(store_->open_space(other.definition()), space_);
}

}  // namespace
}  // namespace sluice
