#include "fallback/fallback_store.h"

#include <gmock/gmock.h>

#include "core/arithmetic.h"
#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;
using testing::HasSubstr;
using Asked = ScriptedStore::Asked;

class FallbackStoreTest : public FallbackFixture {};

TEST_F(FallbackStoreTest, PassesOnWhatTheStoreAnswers) {
  wrap({});
  const Decision decision = decide({.cost = 3});
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.source, Source::kStore);
  EXPECT_EQ(decision.remaining, 7);
  decide({.cost = 2, .operation = Operation::kRefund}, kStart);
  EXPECT_THAT(inner_->asked,
              testing::ElementsAre(
                  Asked{.key = "k", .cost = 3},
                  Asked{.key = "k", .operation = Operation::kRefund, .cost = 2, .now = kStart}));
  EXPECT_FALSE(store_->answers_later());
  EXPECT_EQ(store_->counters().unanswered, 0U);
}

TEST_F(FallbackStoreTest, LocalStatesGoOnFromWhatThisProcessDid) {
  wrap({});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(decide(Ask{}).allowed);
  inner_->lose_all();
  for (int i = 4; i >= 0; --i) {
    const Decision decision = decide(Ask{});
    EXPECT_TRUE(decision.allowed);
    EXPECT_EQ(decision.source, Source::kLocal);
    EXPECT_EQ(decision.limit, 10);
    EXPECT_EQ(decision.remaining, i);
  }
  const Decision denied = decide(Ask{});
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.source, Source::kLocal);
  EXPECT_GT(denied.retry_after, nanoseconds(0));
  EXPECT_EQ(store_->counters().local_answers, 6U);
  EXPECT_EQ(store_->counters().unanswered, 6U);
  EXPECT_EQ(store_->counters().policy_answers, 0U);
}

TEST_F(FallbackStoreTest, LocalStatesFollowRefundsAndResets) {
  wrap({});
  decide({.cost = 8});
  decide({.cost = 3, .operation = Operation::kRefund});
  decide({.key = "r", .cost = 10});
  decide({.key = "r", .operation = Operation::kReset});
  decide({.key = "peeked", .cost = 0});
  decide({.key = "denied", .cost = 11});
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}).remaining, 5);
  EXPECT_EQ(decide({.key = "r", .cost = 0}).remaining, 10);
  EXPECT_EQ(decide({.key = "peeked", .cost = 0}).remaining, 10);
  EXPECT_EQ(decide({.key = "denied", .cost = 0}).remaining, 10);
  // They themselves, where the store cannot be told.
  EXPECT_EQ(decide({.cost = 2, .operation = Operation::kRefund}).remaining, 7);
  decide({.operation = Operation::kReset});
  EXPECT_EQ(decide({.cost = 0}).remaining, 10);
}

TEST_F(FallbackStoreTest, LocalStatesAreJudgedAtTheInstantGiven) {
  wrap({});
  decide({.cost = 10}, kStart);
  inner_->lose_all();
  EXPECT_EQ(decide(Ask{}, kStart + kHourNs / 10 - 1).retry_after, nanoseconds(1));
  EXPECT_TRUE(decide(Ask{}, kStart + kHourNs / 10).allowed);
}

TEST_F(FallbackStoreTest, OnlyTheUnansweredAreAnsweredHere) {
  wrap({});
  lose("b");
  const auto decisions =
      decide_batch({{.key = "a"}, {.key = "b", .cost = 4}, {.key = "a"}, {.key = "b"}});
  EXPECT_EQ(decisions[0].source, Source::kStore);
  EXPECT_EQ(decisions[0].remaining, 9);
  EXPECT_EQ(decisions[1].source, Source::kLocal);
  EXPECT_EQ(decisions[1].remaining, 6);
  EXPECT_EQ(decisions[2].source, Source::kStore);
  EXPECT_EQ(decisions[2].remaining, 8);
  EXPECT_EQ(decisions[3].source, Source::kLocal);
  EXPECT_EQ(decisions[3].remaining, 5);
}

TEST_F(FallbackStoreTest, ABatchMayBeOfAnySize) {
  wrap({}, "token_bucket 1000/1h");
  lose("b");
  std::vector<Ask> asks;
  for (int i = 0; i < 300; ++i) asks.push_back({.key = i % 3 == 0 ? "b" : "a"});
  const auto decisions = decide_batch(asks);
  EXPECT_EQ(decisions[298].remaining, 1000 - 199);
  EXPECT_EQ(decisions[299].remaining, 1000 - 200);
  EXPECT_EQ(decisions[297].remaining, 1000 - 100);
  EXPECT_EQ(decisions[297].source, Source::kLocal);
  decide_batch({});
}

TEST_F(FallbackStoreTest, AnswersForAShareOfTheLimit) {
  wrap({.local_share = 4}, "token_bucket 42/1h");
  decide({.cost = 3});
  inner_->lose_all();
  const Decision peek = decide({.cost = 0});
  EXPECT_TRUE(peek.allowed);
  EXPECT_EQ(peek.limit, 10);
  EXPECT_EQ(peek.remaining, 7);
  EXPECT_EQ(decide({.cost = 7}).remaining, 0);
  EXPECT_FALSE(decide(Ask{}).allowed);
  EXPECT_EQ(decide({.cost = 2, .operation = Operation::kRefund}).remaining, 2);
  EXPECT_EQ(decide({.key = "other", .cost = kMaxInt64 / 3}).retry_after, kNever);
  EXPECT_EQ(decide({.cost = kMaxInt64, .operation = Operation::kRefund}).remaining, 10);
}

TEST_F(FallbackStoreTest, WhatIsPastTheShareIsNotNoted) {
  wrap({.local_share = 4}, "token_bucket 40/1h");
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(decide(Ask{}, kStart).allowed);
  inner_->lose_all();
  EXPECT_FALSE(decide(Ask{}, kStart).allowed);
  // No debt: the share comes back as if this process had stopped there.
  EXPECT_EQ(decide({.cost = 0}, kStart + kHourNs).remaining, 10);
}

TEST_F(FallbackStoreTest, AShareOfTooSmallALimitIsNothing) {
  wrap({.local_share = 11});
  inner_->lose_all();
  // The store would admit it: it is tried again, and only what the limit never admits is not.
  EXPECT_EQ(decide(Ask{}).retry_after, kPolicyWait);
  EXPECT_EQ(decide({.cost = 11}).retry_after, kNever);
  EXPECT_EQ(decide({.cost = 0}).limit, 0);
}

TEST_F(FallbackStoreTest, RefusesOptionsOutOfRange) {
  EXPECT_THROW(wrap({.local_share = 0}), StoreError);
  EXPECT_THROW(wrap({.local_share = 1001}), StoreError);
  EXPECT_THROW(wrap({.local_bytes = 1}), StoreError);
}

TEST_F(FallbackStoreTest, AllowsByPolicy) {
  wrap({.on_failure = OnFailure::kAllow}, "token_bucket 10/1h & fixed_window 7/1h");
  inner_->lose_all();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(decide({.cost = 3}),
              (Decision{.allowed = true, .source = Source::kPolicy, .limit = 7}));
  }
  EXPECT_EQ(store_->counters().policy_answers, 20U);
  EXPECT_EQ(store_->counters().local_answers, 0U);
}

TEST_F(FallbackStoreTest, DeniesByPolicy) {
  wrap({.on_failure = OnFailure::kDeny}, "leaky_bucket 10/1s queue=50");
  inner_->lose_all();
  const Decision denied{.source = Source::kPolicy,
                        .limit = 51,
                        .retry_after = kPolicyWait,
                        .reset_after = kPolicyWait};
  EXPECT_EQ(decide(Ask{}), denied);
  EXPECT_EQ(decide(Ask{}), denied) << "and remembers no such denial";
  EXPECT_EQ(inner_->asked.size(), 2U);
  EXPECT_EQ(decide({.cost = 0}),
            (Decision{.allowed = true, .source = Source::kPolicy, .limit = 51}));
  EXPECT_TRUE(decide({.operation = Operation::kRefund}).allowed);
}

TEST_F(FallbackStoreTest, RaisesOnceAllOthersAreDecided) {
  wrap({.on_failure = OnFailure::kRaise});
  lose("b");
  const auto asked = requests({{.key = "a"}, {.key = "b"}, {.key = "c"}});
  std::vector<Decision> decisions(3, Decision{.limit = -1});
  try {
    store_->decide(asked, kStoreTime, decisions);
    FAIL() << "nothing was raised";
  } catch (const StoreError& error) {
    EXPECT_STREQ(error.what(), "the line is cut");
  }
  EXPECT_TRUE(decisions[0].allowed);
  EXPECT_EQ(decisions[1], Decision{.source = Source::kUnavailable});
  EXPECT_TRUE(decisions[2].allowed);
  EXPECT_EQ(store_->counters().unanswered, 1U);
}

TEST_F(FallbackStoreTest, AGroupIsAnsweredAsAWhole) {
  wrap({});
  EXPECT_EQ(decide_all({{.key = "a", .cost = 2}, {.key = "b", .cost = 7}}).remaining, 3);
  lose("b");
  const Decision local = decide_all({{.key = "a", .cost = 3}, {.key = "b", .cost = 1}});
  EXPECT_TRUE(local.allowed);
  EXPECT_EQ(local.source, Source::kLocal);
  EXPECT_EQ(local.remaining, 2);
  EXPECT_FALSE(decide_all({{.key = "a"}, {.key = "b", .cost = 3}}).allowed);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "a", .cost = 0}).remaining, 5) << "all or nothing";
  EXPECT_EQ(store_->counters().local_answers, 3U);
}

TEST_F(FallbackStoreTest, AGroupFollowsThePolicy) {
  inner_->lose_all();
  wrap({.on_failure = OnFailure::kAllow});
  EXPECT_EQ(decide_all({{.key = "a"}, {.key = "b"}}),
            (Decision{.allowed = true, .source = Source::kPolicy, .limit = 10}));
  wrap({.on_failure = OnFailure::kDeny});
  EXPECT_FALSE(decide_all({{.key = "a", .cost = 0}, {.key = "b"}}).allowed);
  EXPECT_TRUE(decide_all({{.key = "a", .cost = 0}}).allowed);
  wrap({.on_failure = OnFailure::kRaise});
  EXPECT_THROW(decide_all({{.key = "a"}}), StoreError);
  wrap({.local_share = 2});
  EXPECT_EQ(decide_all({{.key = "a", .cost = 2}, {.key = "b"}}).remaining, 3);
}

TEST_F(FallbackStoreTest, AMisusedGroupIsRefused) {
  wrap({});
  EXPECT_THROW(decide_all({{.key = "a"}, {.key = "a"}}), std::invalid_argument);
  inner_->lose_all();
  EXPECT_THROW(decide_all({{.key = "a"}, {.key = "a"}}), std::invalid_argument);
}

TEST_F(FallbackStoreTest, KeepsOneSpaceForEachNameWhileItIsHeld) {
  wrap({});
  const auto first = store_->open_space(Limit("token_bucket 1/1s", "x").definition());
  EXPECT_EQ(store_->open_space(Limit("token_bucket 2/1s", "x").definition()), first);
  EXPECT_NE(store_->open_space(Limit("token_bucket 1/1s", "y").definition()), first);
  EXPECT_THROW(store_->open_space(Limit("sliding_log 1/1s", "x").definition()), StoreError);
}

TEST_F(FallbackStoreTest, LetsGoOfSpacesThatAreNotHeld) {
  wrap({});
  for (int i = 0; i < 300; ++i) {
    std::weak_ptr<Space> space =
        store_->open_space(Limit("token_bucket 1/1s", "x" + std::to_string(i)).definition());
    ASSERT_TRUE(space.expired());
  }
  // Its name is free for another algorithm.
  EXPECT_NO_THROW(store_->open_space(Limit("sliding_log 1/1s", "x7").definition()));
}

TEST_F(FallbackStoreTest, LocalStatesAreBounded) {
  wrap({.local_bytes = std::size_t{1} << 20}, "sliding_log 5/1h");
  inner_->lose_all();
  constexpr int kKeys = 60'000;
  const auto peek = [&](int i) { return decide({.key = std::to_string(i), .cost = 0}, kStart); };
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(decide({.key = std::to_string(i)}, kStart).source, Source::kLocal);
  }
  int known = 0;
  for (int i = 0; i < kKeys; ++i) known += peek(i).remaining == 4 ? 1 : 0;
  EXPECT_GT(known, 1'000);
  // None of them can take less than 32 of a mebibyte and a third.
  EXPECT_LT(known, 45'000);
}

}  // namespace
}  // namespace sluice
