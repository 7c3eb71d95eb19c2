#include "sluice/limiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fallback/fallback_store.h"
#include "sluice/manual_clock.h"
#include "sluice/permit.h"
#include "testing/error_of.h"
#include "testing/scripted_store.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;

/// A limiter over a store that fails, or answers when the test says so. The blocking calls, and
/// what each asynchronous one does, are tested in tests/library.
class LimiterTest : public testing::Test {
 protected:
  using Asked = ScriptedStore::Asked;
  /// The arguments of a callback.
  struct Told {
    Decision decision;
    std::string error;
  };

  Limiter make_limiter(const FallbackOptions& options = {}) {
    return {std::make_shared<FallbackStore>(inner_, options), Limit("sliding_log 10/1w", "limit")};
  }

  void answer_later() { inner_->answers = ScriptedStore::Answers::kWhenTold; }

  void note(const Decision& decision, const std::exception_ptr& error) {
    told_.push_back({decision, error_of<std::exception>([&] {
                       if (error) std::rethrow_exception(error);
                     })});
  }
  DecisionCallback tell() {
    return [this](const Decision& decision, const std::exception_ptr& error) {
      note(decision, error);
    };
  }
  DoneCallback tell_done() {
    return [this](const std::exception_ptr& error) { note({}, error); };
  }
  ReservationCallback keep_it() {
    return [this](Reservation reservation, const std::exception_ptr& error) {
      note(reservation.decision(), error);
      reserved_ = std::move(reservation);
    };
  }
  BatchCallback tell_all() {
    return [this](std::vector<Decision> decisions, const std::exception_ptr& error) {
      decisions_ = std::move(decisions);
      note({}, error);
    };
  }

  Told last() {
    EXPECT_FALSE(told_.empty());
    return told_.empty() ? Told{} : told_.back();
  }

  std::shared_ptr<ScriptedStore> inner_ = std::make_shared<ScriptedStore>();
  std::vector<Told> told_;
  Reservation reserved_;
  std::vector<Decision> decisions_;
};

TEST_F(LimiterTest, IsToldWhenTheStoreHasAnswered) {
  answer_later();
  Limiter limiter = make_limiter();
  limiter.async_check(std::string("k"), 4, tell());
  async_check_all({{limiter, "k"}, {limiter, "other"}}, tell());
  EXPECT_TRUE(told_.empty());
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_EQ(told_[0].decision.remaining, 6);
  EXPECT_EQ(told_[1].decision.remaining, 5);
  for (const Told& told : told_) {
    EXPECT_EQ(told.error, "");
    EXPECT_EQ(told.decision.source, Source::kStore);
  }
}

TEST_F(LimiterTest, IsToldOnceEvenIfTheCallbackThrows) {
  Limiter limiter(inner_, Limit("sliding_log 10/1w", "limit"));
  int told = 0;
  const auto callback = [&](const Decision&, std::exception_ptr) {
    ++told;
    throw std::runtime_error("a callback must not throw");
  };
  EXPECT_THROW(limiter.async_check(std::string("k"), 1, callback), std::runtime_error);
  EXPECT_EQ(told, 1);
}

TEST_F(LimiterTest, IsToldWhatWouldHaveBeenThrown) {
  answer_later();
  inner_->lose_all();
  Limiter limiter = make_limiter({.on_failure = OnFailure::kRaise});
  limiter.async_check("k", 4, tell());
  async_check_all({{limiter, "k"}, {limiter, "other"}}, tell());
  limiter.async_reserve("k", 1, kForever, keep_it());
  limiter.async_reset("k", tell_done());
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 4U);
  for (const Told& told : told_) {
    EXPECT_EQ(told.error, "the line is cut");
    EXPECT_EQ(told.decision, Decision());
  }
  EXPECT_FALSE(reserved_);
}

TEST_F(LimiterTest, AResetThatIsNotAnsweredIsAnError) {
  answer_later();
  Limiter limiter = make_limiter();
  limiter.async_check("k", 4, tell());
  inner_->answer_all();
  inner_->lose_all();
  limiter.async_reset(std::string("k"), tell_done());
  inner_->answer_all();
  EXPECT_THAT(last().error, HasSubstr("the key 'k': it may or may not have reset it"));
  limiter.async_reset("evil\n\x1b[31m" + std::string(3'000, 'x'), tell_done());
  inner_->answer_all();
  EXPECT_THAT(last().error, HasSubstr("'evil\\x0a\\x1b[31mxxx"));
  EXPECT_LT(last().error.size(), 200U);
  limiter.async_peek("k", tell());
  inner_->answer_all();
  EXPECT_EQ(last().decision.remaining, 10) << "and so it is";
}

TEST_F(LimiterTest, ABatchIsOneQuestion) {
  answer_later();
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
  EXPECT_THAT(inner_->batches, ElementsAre(200));
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(last().error, "");
  ASSERT_EQ(decisions_.size(), 200U);
  EXPECT_EQ(decisions_[0].remaining, 9);
  EXPECT_EQ(decisions_[7].remaining, 7);
  EXPECT_FALSE(decisions_[199].allowed);
  EXPECT_EQ(inner_->asked[7].key, "a key that is longer than a string without memory of its own");
}

TEST_F(LimiterTest, ABatchIsToldOfTheErrorWithAllThatIsDecided) {
  Limiter limiter = make_limiter({.on_failure = OnFailure::kRaise});
  inner_->loses = [](const Request& request) { return request.key == "b"; };
  const std::vector<Ask> asks{{.key = "b"}, {.key = "a"}};
  for (const bool late : {false, true}) {
    inner_->answers = late ? ScriptedStore::Answers::kWhenTold : ScriptedStore::Answers::kAtOnce;
    limiter.async_check(asks, tell_all());
    inner_->answer_all();
    EXPECT_EQ(last().error, "the line is cut");
    ASSERT_EQ(decisions_.size(), 2U);
    EXPECT_EQ(decisions_[0].source, Source::kUnavailable);
    EXPECT_TRUE(decisions_[1].allowed);
  }
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(LimiterTest, ABatchIsToldAtOnceWhereNothingIsToBeAsked) {
  answer_later();
  Limiter limiter = make_limiter();
  limiter.async_check(std::span<const Ask>(), tell_all());
  EXPECT_EQ(last().error, "");
  const std::vector<Ask> asks{{.key = "a"}, {.key = "a", .cost = -1}};
  limiter.async_check(asks, tell_all());
  EXPECT_EQ(last().error, "a cost is at least 0, not -1");
  EXPECT_TRUE(decisions_.empty());
  inner_->answer_all();
  EXPECT_THAT(inner_->batches, ElementsAre());
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(LimiterTest, ClaimsAndPartsTellWhatEachAnswers) {
  answer_later();
  const auto store = std::make_shared<FallbackStore>(inner_, FallbackOptions{});
  Limiter both(store, Limit("sliding_log 9/1w & sliding_log 3/1w", "both"));
  Limiter everyone(store, Limit("sliding_log 9/1w", "everyone"));
  Decision whole;
  std::vector<Decision> parts;
  const auto keep = [&](const Decision& told, std::vector<Decision> each, std::exception_ptr) {
    whole = told;
    parts = std::move(each);
  };
  both.async_check_parts(std::string("k"), 2, keep);
  inner_->answer_all();
  EXPECT_EQ(whole.binding, 1);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].remaining, 7);
  EXPECT_EQ(parts[1].remaining, 1);
  async_check_all_parts({{everyone, ""}, {both, "k", 2}}, keep);
  inner_->answer_all();
  EXPECT_EQ(whole.binding, 1);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].remaining, 9);
  EXPECT_FALSE(parts[1].allowed);
  EXPECT_EQ(parts[1].binding, 1) << "of its own parts";
  async_check_all_parts({{both, "k"}}, keep);
  inner_->answer_all();
  EXPECT_EQ(whole.binding, 0) << "of one claim";
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].remaining, 0);

  std::exception_ptr error;
  const auto fail = [&](const Decision&, const std::vector<Decision>&, std::exception_ptr thrown) {
    error = std::move(thrown);
  };
  both.async_check_parts("k", -1, fail);
  EXPECT_THROW(std::rethrow_exception(error), std::invalid_argument);
}

TEST_F(LimiterTest, AReservationArrivesWithItsAnswer) {
  answer_later();
  const auto store = std::make_shared<FallbackStore>(inner_, FallbackOptions{});
  Limiter other(store, Limit("token_bucket 10/1w", "budget"));
  {
    Limiter limiter(store, Limit("token_bucket 10/1w", "budget"));
    limiter.async_reserve(std::string("k"), 10, kForever, keep_it());
    limiter.async_reserve("k", 5, nanoseconds(1), keep_it());
    limiter.async_reserve("k", 5, kForever, keep_it());
  }
  EXPECT_TRUE(told_.empty());
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 3U);
  EXPECT_TRUE(told_[0].decision.allowed);
  EXPECT_FALSE(told_[1].decision.allowed) << "it is later than its patience";
  EXPECT_GT(told_[2].decision.delay, hours(24 * 3));
  EXPECT_TRUE(reserved_);
  EXPECT_GT(reserved_.delay(), hours(24 * 3));
  reserved_.async_cancel(tell_done());
  EXPECT_EQ(reserved_.delay(), nanoseconds(0)) << "there is nothing to wait for";
  EXPECT_FALSE(reserved_.wait());
  EXPECT_EQ(told_.size(), 3U);
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 4U);
  EXPECT_EQ(last().error, "");
  other.async_peek("k", tell());
  inner_->answer_all();
  EXPECT_LE(last().decision.reset_after, hours(24 * 7));
}

TEST_F(LimiterTest, AReservationIsSettledOnce) {
  Limiter limiter = make_limiter();
  Reservation reservation = limiter.reserve("k", 6);
  answer_later();
  reservation.async_commit(-1, tell());
  EXPECT_EQ(last().error, "what it cost is at least 0, not -1");
  reservation.async_commit(2, tell());
  reservation.async_cancel(tell_done());
  reservation.async_commit(0, tell());
  ASSERT_EQ(told_.size(), 3U) << "what is settled is told at once";
  EXPECT_EQ(last().decision, reservation.decision());
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 4U);
  EXPECT_EQ(last().decision.remaining, 8);
  inner_->asked.clear();
  reservation = Reservation();
  reservation.async_cancel(tell_done());
  reservation.async_commit(3, tell());
  EXPECT_FALSE(last().decision.allowed);
  EXPECT_EQ(told_.size(), 6U);
}

TEST_F(LimiterTest, AReservationMayGoBeforeItIsSettled) {
  answer_later();
  const auto store = std::make_shared<FallbackStore>(inner_, FallbackOptions{});
  {
    Limiter limiter(store, Limit("sliding_log 10/1w", "limit"));
    limiter.async_reserve("a key that is longer than a string without memory", 3, kForever,
                          keep_it());
  }
  inner_->answer_all();
  std::exchange(reserved_, {}).async_commit(7, tell());
  inner_->answer_all();
  EXPECT_EQ(last().decision.remaining, 3);
  EXPECT_EQ(inner_->asked.back(), (Asked{.key = "a key that is longer than a string without memory",
                                         .operation = Operation::kCharge,
                                         .cost = 4}));
  EXPECT_EQ(store.use_count(), 1);
}

// Pending requests keep alive what they need, except the store.
TEST_F(LimiterTest, MayGoBeforeItsQuestionsAreAnswered) {
  answer_later();
  const auto store = std::make_shared<FallbackStore>(inner_, FallbackOptions{});
  {
    Limiter limiter(store, Limit("token_bucket 10/1h", "limit"));
    limiter.async_check(std::string("a key that does not live long enough to be asked"), 4, tell());
    limiter.set_limit(Limit("sliding_log 7/1h", "limit"));
    limiter.async_check("a", 4, tell());
  }
  EXPECT_EQ(store.use_count(), 1);
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_EQ(told_[0].decision.remaining, 6);
  EXPECT_EQ(inner_->asked[0].key, "a key that does not live long enough to be asked");
  EXPECT_EQ(told_[1].decision.remaining, 3);
}

TEST_F(LimiterTest, AReservationIsReturnedToItsGiver) {
  Limiter limiter = make_limiter();
  Reservation by_store = limiter.reserve("a", 4);
  inner_->lose_all();
  Reservation here = limiter.reserve("a", 3);
  EXPECT_EQ(here.decision().source, Source::kLocal);
  inner_->lose_nothing();
  inner_->asked.clear();
  here.cancel();
  EXPECT_THAT(inner_->asked, ElementsAre());
  by_store.cancel();
  EXPECT_THAT(inner_->asked,
              ElementsAre(Asked{.key = "a", .operation = Operation::kRefund, .cost = 4}));
  EXPECT_EQ(limiter.peek("a").remaining, 10);
}

// The store may have forgotten its units already.
TEST_F(LimiterTest, AReservationReturnsNothingWhileItsKeyIsReset) {
  Limiter limiter = make_limiter();
  Reservation cancelled = limiter.reserve("a", 4);
  Reservation committed = limiter.reserve("a", 4);
  Reservation exceeded = limiter.reserve("a", 1);
  Reservation other = limiter.reserve("b", 4);
  answer_later();
  limiter.async_reset("a", tell_done());
  inner_->asked.clear();
  cancelled.cancel();
  committed.commit(1);
  other.cancel();
  exceeded.commit(3);
  ASSERT_EQ(inner_->asked.size(), 4U);
  EXPECT_EQ(inner_->asked[0].cost, 0);
  EXPECT_EQ(inner_->asked[1].cost, 0);
  EXPECT_EQ(inner_->asked[2].cost, 4);
  EXPECT_EQ(inner_->asked[3].cost, 2) << "what exceeds it was never reserved";
  inner_->answer_all();
  EXPECT_EQ(last().error, "");
}

// Whether the reset's answer is lost or not. The store may have reset the key after it had granted
// the units.
TEST_F(LimiterTest, AReservationMadeBeforeOrWhileItsKeyIsResetReturnsNothing) {
  Limiter limiter = make_limiter({.on_failure = OnFailure::kRaise});
  const auto lose_resets = [this] {
    inner_->loses = [](const Request& asked) { return asked.operation == Operation::kReset; };
  };
  const std::function<void()> resets[] = {
      [&] { limiter.reset("a"); },
      [&] { limiter.async_reset("a", tell_done()); },
      [&] {
        lose_resets();
        EXPECT_THROW(limiter.reset("a"), StoreError);
      },
      [&] {
        lose_resets();
        limiter.async_reset("a", tell_done());
      },
  };
  for (const auto& reset : resets) {
    SCOPED_TRACE(&reset - resets);
    Reservation before = limiter.reserve("a");
    inner_->on_the_way = [&] { reserved_ = limiter.reserve("a"); };
    reset();
    for (Reservation* cancelled : {&before, &reserved_}) {
      cancelled->cancel();
      EXPECT_EQ(inner_->asked.back().operation, Operation::kRefund);
      EXPECT_EQ(inner_->asked.back().cost, 0);
    }
  }
}

TEST_F(LimiterTest, AReservationIsSettledThoughTheStoreIsLost) {
  Limiter limiter = make_limiter({.on_failure = OnFailure::kRaise});
  Reservation reservation = limiter.reserve("a", 4);
  inner_->lose_all();
  EXPECT_THROW(reservation.commit(1), StoreError);
  inner_->lose_nothing();
  reservation.cancel();
  EXPECT_EQ(limiter.peek("a").remaining, 6) << "what happens to it happens once";
}

TEST_F(LimiterTest, ALimitChangesAFewThousandTimes) {
  Limiter limiter(inner_, Limit("token_bucket 10/1h", "limit"));
  for (int i = 2; i <= 10'000; ++i) {
    limiter.set_limit(Limit("token_bucket " + std::to_string(i + 10) + "/1h", "limit"));
  }
  EXPECT_THROW(limiter.set_limit(Limit("token_bucket 1/1h", "limit")), StoreError);
  EXPECT_EQ(limiter.check("a").limit, 10'010);
  limiter.set_limit(Limit("token_bucket 10/1h", "limit"));
  EXPECT_EQ(limiter.check("a").limit, 10) << "it has had that one";
}

// A full store with full=allow admits without recording. Others may have taken units since.
TEST(Reservation, ReturnsNoUnitsThatAFullStoreDidNotRecord) {
  ManualClock clock;
  const auto store = open_store("memory:?max_bytes=1048576&full=allow", clock);
  Limiter total(store, Limit("fixed_window 9/10h", "total"));
  total.check("");
  Limiter later(store, Limit("token_bucket 1/100h", "later"));
  later.check("");
  Limiter others(store, Limit("fixed_window 1/1h", "others"));
  int keys = 0;
  while (others.check(std::to_string(keys)).source == Source::kStore && keys < 1'000'000) ++keys;
  Limiter limiter(store, Limit("fixed_window 5/10h", "limit"));
  std::string key;
  Reservation cancelled;
  for (int i = 0; i < 1000 && cancelled.decision().source != Source::kFull; ++i) {
    key = "k" + std::to_string(i);
    cancelled = limiter.reserve(key, 2);
  }
  Reservation committed = limiter.reserve(key, 2);
  ASSERT_EQ(committed.decision().source, Source::kFull);
  auto both = reserve_all({{limiter, key, 2}, {total, "", 3}});
  ASSERT_EQ(both[1].decision().source, Source::kFull);
  EXPECT_EQ(total.peek("").remaining, 5);
  for (Reservation& each : both) each.cancel();
  EXPECT_EQ(total.peek("").remaining, 8) << "its units were recorded";
  std::stop_source stop;
  std::jthread waits([&] {
    acquire_all({{limiter, key, 2}, {total, "", 3}, {later, ""}}, kForever, stop.get_token());
  });
  clock.await_waiting(1);
  EXPECT_EQ(total.peek("").remaining, 5);
  stop.request_stop();
  waits.join();
  EXPECT_EQ(total.peek("").remaining, 8) << "what it had reserved is returned";
  clock.advance(std::chrono::hours(1));  // There is room again.
  EXPECT_EQ(limiter.check(key).remaining, 4);
  cancelled.cancel();
  EXPECT_EQ(limiter.peek(key).remaining, 4);
  EXPECT_EQ(committed.commit(1).remaining, 3) << "what it cost is recorded after all";
}

// Others may have taken units since, which are not those of the reservation.
TEST(Reservation, ReturnsNothingThatDoesNotCountAnyMore) {
  using std::chrono::seconds;
  for (const char* expression : {"fixed_window 5/10s", "sliding_log 5/10s", "token_bucket 5/10s",
                                 "token_bucket 5/1s & fixed_window 5/10s"}) {
    ManualClock clock;
    Limiter limiter(open_store("memory:", clock), Limit(expression));
    Reservation in_time = limiter.reserve("in time", 5);
    Reservation over = limiter.reserve("over", 5);
    clock.advance(seconds(10) - nanoseconds(1));
    in_time.cancel();
    EXPECT_EQ(limiter.peek("in time").remaining, 5) << expression;
    clock.advance(nanoseconds(1));
    EXPECT_TRUE(limiter.check("over", 5)) << expression;
    EXPECT_EQ(over.commit(1).remaining, 0) << expression;
    EXPECT_FALSE(limiter.check("over")) << expression;
  }
}

// Otherwise the part that counts them for a shorter time would admit more than its limit.
TEST(Reservation, ReturnsToEachPartWhatItCounts) {
  const Limit hourly("fixed_window 100/1h", "hourly");
  for (const char* expression :
       {"fixed_window 5/1s & fixed_window 9/1h", "fixed_window 9/1h & sliding_log 5/1s",
        "sliding_window 9/1h & token_bucket 5/1s & fixed_window 9/1h"}) {
    SCOPED_TRACE(expression);
    ManualClock clock;
    const auto store = open_store("memory:", clock);
    const Limit limit(expression);
    Limiter limiter(store, limit);
    Limiter other(store, hourly);
    std::vector<Reservation> all = reserve_all({{limiter, "list of one", 5}});
    all.push_back(limiter.reserve("alone", 5));
    all.push_back(std::move(reserve_all({{other, "", 1}, {limiter, "listed", 5}})[1]));
    limiter.async_reserve("later", 5, nanoseconds(0), [&](Reservation made, std::exception_ptr) {
      all.push_back(std::move(made));
    });
    clock.advance(std::chrono::seconds(1));
    const std::string keys[] = {"list of one", "alone", "listed", "later"};
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(all[i]) << keys[i];
      EXPECT_TRUE(limiter.check(keys[i], 4)) << keys[i];
      std::vector<Decision> parts(limit.parts().size());
      all[i].commit(1);
      limiter.check_parts(keys[i], 0, parts);
      for (const Decision& part : parts) {
        EXPECT_EQ(part.remaining, part.limit == 5 ? 1 : 4) << keys[i];
      }
    }
  }
}

}  // namespace
}  // namespace sluice
