#include <gmock/gmock.h>

#include <functional>
#include <stdexcept>

#include "limiter/later_under_test.h"
#include "sluice/permit.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;
using testing::HasSubstr;

/// What asks later and tells; limiter_test.cc has more of async_check().
class LaterTest : public LaterUnderTest {
 protected:
  /// All that tells of a decision, each as (blocking, later).
  struct Pair {
    std::function<Decision(Limiter&)> now;
    std::function<void(Limiter&, DecisionCallback)> later;
  };
  static std::vector<Pair> pairs() {
    return {
        {[](Limiter& l) { return l.check("k", 4); },
         [](Limiter& l, const DecisionCallback& told) {
           l.async_check(std::string("k"), 4, told);
         }},
        {[](Limiter& l) { return l.charge("k", 8); },
         [](Limiter& l, const DecisionCallback& told) {
           l.async_charge(std::string("k"), 8, told);
         }},
        {[](Limiter& l) { return l.refund("k", 5); },
         [](Limiter& l, const DecisionCallback& told) {
           l.async_refund(std::string("k"), 5, told);
         }},
        {[](Limiter& l) { return l.peek("k"); },
         [](Limiter& l, const DecisionCallback& told) { l.async_peek(std::string("k"), told); }},
        {[](Limiter& l) { return l.take_up_to("k", 9); },
         [](Limiter& l, const DecisionCallback& told) {
           l.async_take_up_to(std::string("k"), 9, told);
         }},
        {[](Limiter& l) { return l.block("k", hours(2)); },
         [](Limiter& l, const DecisionCallback& told) {
           l.async_block(std::string("k"), hours(2), told);
         }},
        {[](Limiter& l) { return l.check("k", 1); },
         [](Limiter& l, const DecisionCallback& told) {
           l.async_check(std::string("k"), 1, told);
         }},
        {[](Limiter& l) {
           return check_all({{l, "k"}, {l, "other"}});
         },
         [](Limiter& l, const DecisionCallback& told) {
           async_check_all({{l, "k"}, {l, "other"}}, told);
         }},
    };
  }
};

TEST_F(LaterTest, IsToldWhatTheBlockingFormReturns) {
  inner_->late = true;
  Limiter later = make_limiter();
  Limiter now(std::make_shared<ScriptedStore>(), Limit("sliding_log 10/1w", "limit"));
  for (const Pair& pair : pairs()) {
    const std::size_t before = told_.size();
    const Decision expected = pair.now(now);
    pair.later(later, tell());
    EXPECT_EQ(told_.size(), before) << "not before the answer";
    inner_->answer_all();
    ASSERT_EQ(told_.size(), before + 1) << "once";
    const Decision& decision = last().decision;
    EXPECT_EQ(last().error, nullptr);
    EXPECT_EQ(decision.allowed, expected.allowed);
    EXPECT_EQ(decision.remaining, expected.remaining);
    EXPECT_EQ(decision.taken, expected.taken);
    EXPECT_EQ(decision.source, Source::kStore);
  }
}

TEST_F(LaterTest, IsToldAtOnceWhereTheStoreAnswersAtOnce) {
  Limiter limiter = make_limiter();
  for (const Pair& pair : pairs()) pair.later(limiter, tell());
  limiter.async_reset("k", tell_done());
  EXPECT_EQ(last_sentence(), "no error");
  limiter.async_reserve("k", 4, kForever, keep_it());
  EXPECT_EQ(told_.size(), pairs().size() + 2);
  EXPECT_EQ(reserved_.decision().remaining, 6);
}

TEST_F(LaterTest, IsToldWhatWouldHaveBeenThrown) {
  inner_->late = true;
  inner_->lose_all();
  Limiter limiter = make_limiter({.on_failure = OnFailure::kRaise});
  std::size_t times = 0;
  for (const Pair& pair : pairs()) {
    pair.later(limiter, tell());
    inner_->answer_all();
    ASSERT_EQ(told_.size(), ++times);
    EXPECT_EQ(last_sentence(), "the line is cut");
  }
  limiter.async_reserve("k", 1, kForever, keep_it());
  inner_->answer_all();
  EXPECT_EQ(last_sentence(), "the line is cut");
  EXPECT_FALSE(reserved_);
  limiter.async_reset("k", tell_done());
  inner_->answer_all();
  EXPECT_EQ(last_sentence(), "the line is cut");
}

TEST_F(LaterTest, IsToldOfNumbersOutOfRange) {
  Limiter limiter = make_limiter();
  limiter.async_refund("k", -1, tell());
  EXPECT_EQ(last_sentence(), "a refund is at least 0, not -1");
  limiter.async_charge("k", -2, tell());
  EXPECT_EQ(last_sentence(), "a charge is at least 0, not -2");
  limiter.async_take_up_to("k", -3, tell());
  EXPECT_EQ(last_sentence(), "what is taken is at least 0, not -3");
  limiter.async_block("k", nanoseconds(0), tell());
  EXPECT_EQ(last_sentence(), "a block lasts from 1 to 2305843009213693952 ns, not 0");
  limiter.async_reserve("k", -4, kForever, keep_it());
  EXPECT_EQ(last_sentence(), "a cost is at least 0, not -4");
  limiter.async_reserve("k", 1, nanoseconds(-5), keep_it());
  EXPECT_EQ(last_sentence(), "a patience is at least 0 ns, not -5");
  EXPECT_EQ(told_.size(), 6U);
  EXPECT_EQ(inner_->calls, 0);
}

TEST_F(LaterTest, AResetThatIsNotAnsweredIsAnError) {
  inner_->late = true;
  Limiter limiter = make_limiter();
  limiter.async_check("k", 4, tell());
  inner_->answer_all();
  inner_->lose_all();
  limiter.async_reset(std::string("k"), tell_done());
  inner_->answer_all();
  EXPECT_THAT(last_sentence(), HasSubstr("'k' is reset in this process at most"));
  limiter.async_peek("k", tell());
  inner_->answer_all();
  EXPECT_EQ(last().decision.remaining, 10) << "and so it is";
}

TEST_F(LaterTest, WhatIsGivenBackIsNoLongerDeniedByTheCache) {
  Limiter limiter = make_limiter();
  limiter.check("k", 10);
  limiter.check("k");
  EXPECT_EQ(limiter.check("k").source, Source::kCache);
  inner_->late = true;
  limiter.async_refund("k", 4, tell());
  inner_->answer_all();
  EXPECT_EQ(last().decision.remaining, 4);
  EXPECT_TRUE(limiter.check("k", 4).allowed);
  EXPECT_FALSE(limiter.check("k").allowed);
  limiter.async_reset("k", tell_done());
  inner_->answer_all();
  EXPECT_TRUE(limiter.check("k", 10).allowed);
}

class LaterBatchTest : public LaterTest {
 protected:
  BatchCallback tell_all() {
    return [this](std::vector<Decision> decisions, std::exception_ptr error) {
      decisions_ = std::move(decisions);
      told_.push_back({{}, std::move(error)});
    };
  }

  std::vector<Decision> decisions_;
};

TEST_F(LaterBatchTest, IsOneQuestion) {
  inner_->late = true;
  Limiter limiter = make_limiter();
  {
    std::vector<std::string> keys(200, "a");
    keys[7] = "a key that is longer than a string without memory of its own";
    std::vector<Ask> asks;
    asks.reserve(keys.size());
    for (const std::string& key : keys) asks.push_back({.key = key});
    asks[7].cost = 3;
    limiter.async_check(asks, tell_all());
  }
  EXPECT_TRUE(told_.empty());
  inner_->answer_all();
  EXPECT_EQ(inner_->calls, 1);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(last_sentence(), "no error");
  ASSERT_EQ(decisions_.size(), 200U);
  EXPECT_EQ(decisions_[0].remaining, 9);
  EXPECT_EQ(decisions_[7].remaining, 7);
  EXPECT_FALSE(decisions_[199].allowed);
  EXPECT_EQ(inner_->asked[7].key, "a key that is longer than a string without memory of its own");
}

TEST_F(LaterBatchTest, IsToldOfTheErrorWithAllThatIsDecided) {
  Limiter limiter = make_limiter({.on_failure = OnFailure::kRaise});
  inner_->loses = [](const Request& request) { return request.key == "b"; };
  const std::vector<Ask> asks{{.key = "b"}, {.key = "a"}};
  for (const bool late : {false, true}) {
    inner_->late = late;
    limiter.async_check(asks, tell_all());
    inner_->answer_all();
    EXPECT_EQ(last_sentence(), "the line is cut");
    ASSERT_EQ(decisions_.size(), 2U);
    EXPECT_EQ(decisions_[0].source, Source::kUnanswered);
    EXPECT_TRUE(decisions_[1].allowed);
  }
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(LaterBatchTest, IsToldAtOnceWhereNothingIsToBeAsked) {
  inner_->late = true;
  Limiter limiter = make_limiter();
  limiter.async_check(std::span<const Ask>(), tell_all());
  EXPECT_EQ(last_sentence(), "no error");
  const std::vector<Ask> asks{{.key = "a"}, {.key = "a", .cost = -1}};
  limiter.async_check(asks, tell_all());
  EXPECT_EQ(last_sentence(), "a cost is at least 0, not -1");
  EXPECT_TRUE(decisions_.empty());
  inner_->answer_all();
  EXPECT_EQ(inner_->calls, 0);
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(LaterTest, ClaimsAreTakenFromAllOrNone) {
  inner_->late = true;
  const auto store = std::make_shared<GuardedStore>(inner_, GuardOptions{});
  Limiter number(store, Limit("sliding_log 3/1w", "number"));
  Limiter everyone(store, Limit("sliding_log 9/1w", "everyone"));
  async_check_all({{number, std::string("+1"), 2}, {everyone, ""}}, tell());
  async_check_all({{number, "+1", 2}, {everyone, ""}}, tell());
  EXPECT_TRUE(told_.empty());
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_TRUE(told_[0].decision.allowed);
  EXPECT_EQ(told_[0].decision.remaining, 1);
  EXPECT_FALSE(told_[1].decision.allowed);
  everyone.async_peek("", tell());
  inner_->answer_all();
  EXPECT_EQ(last().decision.remaining, 8);
}

TEST_F(LaterTest, IsToldOfClaimsThatCannotBeTakenTogether) {
  inner_->late = true;
  Limiter limiter = make_limiter();
  Limiter other = make_limiter();
  async_check_all({}, tell());
  EXPECT_EQ(last_sentence(), "from 1 to 16 claims are taken from together, not 0");
  async_check_all({{limiter, "a"}, {other, "a"}}, tell());
  EXPECT_THAT(last_sentence(), HasSubstr("in different stores"));
  async_check_all({{limiter, "a", -1}}, tell());
  EXPECT_EQ(last_sentence(), "a cost is at least 0, not -1");
  inner_->late = false;
  async_check_all({{limiter, "a"}, {limiter, "a"}}, tell());
  EXPECT_THAT(last_sentence(), HasSubstr("named twice"));
  EXPECT_THROW(std::rethrow_exception(last().error), std::invalid_argument);
  EXPECT_EQ(told_.size(), 4U);
}

TEST_F(LaterTest, AConcurrencyLimiterAsksLaterToo) {
  inner_->late = true;
  const auto store = std::make_shared<GuardedStore>(inner_, GuardOptions{});
  ConcurrencyLimiter jobs(store, Limit("concurrency 4", "jobs"));
  jobs.async_peek(std::string("k"), tell());
  jobs.async_block(std::string("k"), hours(1), tell());
  EXPECT_TRUE(told_.empty());
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_EQ(told_[0].decision.remaining, 4);
  EXPECT_EQ(told_[1].decision.remaining, 0);
  jobs.async_block("k", nanoseconds(0), tell());
  EXPECT_EQ(last_sentence(), "a block lasts from 1 to 2305843009213693952 ns, not 0");
  jobs.async_reset(std::string("k"), tell_done());
  jobs.async_peek("k", tell());
  inner_->answer_all();
  EXPECT_EQ(last().decision.remaining, 4);
  inner_->lose_all();
  jobs.async_reset("k", tell_done());
  inner_->answer_all();
  EXPECT_THAT(last_sentence(), HasSubstr("'k' is reset in this process at most"));
}

}  // namespace
}  // namespace sluice
