#include <gmock/gmock.h>

#include "limiter/line_under_test.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

/// How those who wait leave a line.
using LeavingLineTest = LineUnderTest;

TEST_F(LeavingLineTest, LeavesWhenItsPatienceEnds) {
  use_permits();
  come({.patience = seconds(10)});
  come({.patience = seconds(5)});
  come();
  keeper_->pass(seconds(5) - nanoseconds(1));
  EXPECT_THAT(denied_, IsEmpty());
  keeper_->pass(nanoseconds(1));
  EXPECT_THAT(denied_, ElementsAre(2));
  EXPECT_EQ(outcomes_[2].decision.retry_after, seconds(55)) << "the line's last denial, aged";
  keeper_->pass(seconds(5));
  EXPECT_THAT(denied_, ElementsAre(2, 1));
  EXPECT_FALSE(lines_.nobody_waits("k"));
  grant(true);
  lines_.released("k");
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(3));
  EXPECT_EQ(keeper_->timers(), 0U);
}

TEST_F(LeavingLineTest, AnAnswerUnderWayWhenPatienceEndsIsTheLast) {
  use_permits();
  store_->late = true;
  come({.patience = seconds(1)});
  keeper_->run();
  keeper_->pass(seconds(2));
  EXPECT_THAT(denied_, IsEmpty());
  store_->answer();
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(1));

  come({.patience = seconds(1)});
  keeper_->pass(seconds(1));
  grant(true);
  store_->answer();
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(2));
}

TEST_F(LeavingLineTest, StopsAtOnceAndGivesBackWhatComesTooLate) {
  use_permits();
  store_->late = true;
  std::stop_source stop;
  come({.stop = stop.get_token()});
  come();
  keeper_->run();
  stop.request_stop();
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(1));
  EXPECT_THAT(asked(), ElementsAre(1));
  grant(true);
  store_->answer();
  keeper_->run();
  ASSERT_EQ(store_->asked.size(), 2U);
  EXPECT_EQ(store_->asked[0].operation, Operation::kRelease);
  EXPECT_EQ(store_->asked[0].permit, 1U);
  EXPECT_EQ(store_->asked[1].permit, 2U) << "the next one asks";
  store_->answer();
  store_->answer();
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(2));
}

TEST_F(LeavingLineTest, StopsThoseWhoStandBehind) {
  use_permits();
  std::stop_source stop;
  come();
  come({.stop = stop.get_token()});
  come();
  keeper_->run();
  stop.request_stop();
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(2));
  grant(true);
  lines_.released("k");
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(1, 3));
}

TEST_F(LeavingLineTest, WhoIsStoppedBeforeItComesDoesNotAsk) {
  use_permits();
  std::stop_source stop;
  stop.request_stop();
  come({.stop = stop.get_token()});
  come({.stop = stop.get_token(), .directly = true});
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(1, 2));
  EXPECT_GT(outcomes_[1].decision.retry_after, nanoseconds(0));
  EXPECT_THAT(asked(), IsEmpty());
  EXPECT_TRUE(lines_.nobody_waits("k"));
}

TEST_F(LeavingLineTest, ALostAnswerIsAnErrorAndThePermitIsGivenBack) {
  use_permits();
  store_->says = [](const Request& request) {
    return Decision{
        .allowed = request.operation == Operation::kRelease,
        .source = request.operation == Operation::kTake ? Source::kUnanswered : Source::kStore};
  };
  come();
  keeper_->run();
  ASSERT_TRUE(outcomes_[1].error);
  EXPECT_THROW(std::rethrow_exception(outcomes_[1].error), StoreError);
  EXPECT_EQ(store_->asked.back().operation, Operation::kRelease);
  EXPECT_EQ(store_->asked.back().permit, 1U);

  store_->late = true;
  come();
  keeper_->run();
  store_->answer();
  keeper_->run();
  ASSERT_TRUE(outcomes_[2].error);
  EXPECT_EQ(store_->asked.back().operation, Operation::kRelease);
  EXPECT_EQ(store_->asked.back().permit, 2U);
  store_->answer();
  keeper_->run();
}

TEST_F(LeavingLineTest, OfAWindowAsksExactlyWhenItMayBeGranted) {
  use_window();
  store_->late = true;
  retry_after_ = seconds(20);
  come({.denied = Decision{.retry_after = seconds(20)}});
  come({.cost = 3});
  keeper_->run();
  ASSERT_EQ(store_->under_way(), 1U) << "it may have been given back since it was denied";
  store_->answer();
  keeper_->pass(seconds(20) - nanoseconds(1));
  EXPECT_EQ(store_->under_way(), 0U);
  keeper_->pass(nanoseconds(1));
  ASSERT_EQ(store_->under_way(), 1U);
  EXPECT_EQ(store_->asked[1].patience_ns, nanoseconds(seconds(80)).count())
      << "of its patience, that much is left";
  grant(true);
  store_->answer();
  keeper_->run();
  EXPECT_EQ(store_->asked[2].cost, 3);
  store_->answer();
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(1, 2));
}

TEST_F(LeavingLineTest, OfAWindowWaitsNoLongerThanItsPatience) {
  use_window();
  retry_after_ = seconds(20);
  come({.patience = seconds(20), .directly = true});
  keeper_->run();
  EXPECT_THAT(denied_, IsEmpty()) << "it may be granted when its patience ends";
  come({.patience = seconds(20) - nanoseconds(1)});
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(2)) << "it cannot be granted before the one that waits already";
  grant(true);
  keeper_->pass(seconds(20));
  EXPECT_THAT(granted_, ElementsAre(1));
  grant(false);
  come({.patience = seconds(20) - nanoseconds(1), .directly = true});
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(2, 3));
  EXPECT_EQ(outcomes_[3].decision.retry_after, seconds(20));
}

TEST_F(LeavingLineTest, OfAWindowTheNextMayWishForLess) {
  use_window();
  std::stop_source stop;
  store_->says = [](const Request& request) {
    return request.cost > 1 ? Decision{.retry_after = seconds(20)} : Decision{.allowed = true};
  };
  come({.cost = 3, .stop = stop.get_token()});
  come();
  keeper_->pass(seconds(1));
  EXPECT_THAT(granted_, IsEmpty());
  stop.request_stop();
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(2));
}

TEST_F(LeavingLineTest, OfAWindowGivesBackWhatComesTooLate) {
  use_window();
  store_->late = true;
  std::stop_source stop;
  come({.cost = 3, .stop = stop.get_token(), .directly = true});
  keeper_->run();
  stop.request_stop();
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(1));
  grant(true);
  store_->answer();
  keeper_->run();
  EXPECT_EQ(store_->asked.back().operation, Operation::kRefund);
  EXPECT_EQ(store_->asked.back().cost, 3);
  store_->answer();
  keeper_->run();
}

TEST_F(LeavingLineTest, ABucketIsNotWaitedFor) {
  use("token_bucket 5/1m", LimitSlot::Kind::kSpent);
  come({.directly = true});
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(1)) << "it would have been reserved";
}

TEST_F(LeavingLineTest, WhatCanNeverBeIsOfItsCostAlone) {
  use_window();
  store_->late = true;
  retry_after_ = kNever;
  std::stop_source stop;
  come({.cost = 11});
  come();
  come({.stop = stop.get_token()});
  keeper_->run();
  store_->answer();
  keeper_->run();
  EXPECT_EQ(outcomes_[1].decision.retry_after, kNever);
  stop.request_stop();
  keeper_->run();
  ASSERT_THAT(denied_, ElementsAre(1, 3));
  EXPECT_EQ(outcomes_[3].decision.retry_after, kSoon) << "nobody was asked about so few";
}

}  // namespace
}  // namespace sluice
