#include "waiting/wait_queues.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "testing/wait_queues_fixture.h"
#include "waiting/ask_pauses.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::UnorderedElementsAre;

using WaitQueuesTest = WaitQueuesFixture;

TEST_F(WaitQueuesTest, OnlyTheFirstAsksAndAtOnceAfterARelease) {
  use_permits();
  for (int i = 0; i < 3; ++i) come();
  EXPECT_THAT(asked(), ElementsAre(1));
  timer_->pass(seconds(59));
  EXPECT_THAT(asked(), IsEmpty()) << "no other process has permits of this store";
  release("other");
  EXPECT_THAT(asked(), IsEmpty());
  grant(true);
  store_->says = [count = 0](const Request&) mutable {
    return ++count == 1 ? Decision{.allowed = true} : Decision{.retry_after = seconds(60)};
  };
  release();
  EXPECT_THAT(asked(), ElementsAre(1, 2)) << "the next one asks at once";
  EXPECT_THAT(granted_, ElementsAre(1));
}

TEST_F(WaitQueuesTest, AskWithGrowingPausesForWhatOthersShare) {
  use_shared_permits();
  come();
  std::vector<nanoseconds> pauses;
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(store_->pending(), 1U);
    pauses.push_back(next_pause());
  }
  nanoseconds longest = milliseconds(5);
  for (const nanoseconds pause : pauses) {
    EXPECT_THAT(pause, AllOf(Ge(std::max<nanoseconds>(milliseconds(5), longest / 2)),
                             Le(longest + nanoseconds(100'000))));
    longest = std::min<nanoseconds>(AskPauses::kMost, 2 * longest);
  }
  // A release, and they begin anew.
  answer();
  release();
  ASSERT_EQ(store_->pending(), 1U);
  answer();
  timer_->pass(milliseconds(5));
  EXPECT_EQ(store_->pending(), 1U);
}

TEST_F(WaitQueuesTest, AskMoreOftenOncePassedOver) {
  use_shared_permits();
  store_->tells = true;  // So it says, and never does.
  come();
  const auto came = timer_->now();
  while (timer_->now() - came < AskPauses::kPassedOver) next_pause();
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(next_pause(), AllOf(Ge(AskPauses::kMostPassedOver / 2),
                                    Le(AskPauses::kMostPassedOver + milliseconds(1))));
  }
  // It is granted: the next one's pauses are long again.
  come();
  grant(true);
  answer();
  ASSERT_THAT(granted_, ElementsAre(1));
  grant(false);
  nanoseconds longest{0};
  for (int i = 0; i < 8; ++i) longest = std::max<nanoseconds>(longest, next_pause());
  EXPECT_GT(longest, AskPauses::kMostPassedOver + milliseconds(1));
}

TEST_F(WaitQueuesTest, AskNoLaterThanALeaseEnds) {
  use_shared_permits();
  retry_after_ = milliseconds(2);
  come();
  answer();
  timer_->pass(milliseconds(2));
  EXPECT_EQ(store_->pending(), 1U);
}

TEST_F(WaitQueuesTest, AreToldOfReleasesElsewhereWhileACallerWaits) {
  use_shared_permits();
  store_->tells = true;
  come();
  EXPECT_THAT(store_->watched(), IsEmpty()) << "it may be granted at once";
  answer();
  ASSERT_EQ(store_->watched().size(), 1U);
  EXPECT_EQ(store_->watched()[0].key, "k");
  grant(true);
  store_->tell();
  timer_->run();
  ASSERT_EQ(store_->pending(), 1U);
  answer();
  EXPECT_THAT(granted_, ElementsAre(1));
  EXPECT_THAT(store_->watched(), IsEmpty());
}

TEST_F(WaitQueuesTest, AskAfterPausesAlsoIfTheStoreCeasesToTell) {
  use_shared_permits();
  store_->tells = true;
  come();
  answer();
  store_->tell();
  timer_->run();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(store_->pending(), 1U);
    answer();
    timer_->pass(AskPauses::kMost);
  }
}

// The limit itself would have reserved, so that its own denial is final.
TEST_F(WaitQueuesTest, ADenialByThePolicyIsWaitedFor) {
  use("token_bucket 1/1s", LimitBinding::Kind::kUnits);
  retry_after_ = seconds(1);
  store_->says = [this](const Request&) {
    return Decision{.allowed = grants_, .source = Source::kPolicy, .retry_after = retry_after_};
  };
  come({.timeout = milliseconds(999), .directly = true});
  EXPECT_THAT(denied_, ElementsAre(1));
  come({.timeout = seconds(1), .directly = true});
  grant(true);
  timer_->pass(seconds(1));
  EXPECT_THAT(granted_, ElementsAre(2));
}

TEST_F(WaitQueuesTest, AReleaseWhileTheFirstAsksIsNotMissed) {
  use_shared_permits();
  come();
  release();
  EXPECT_EQ(store_->pending(), 1U) << "one asking at a time";
  answer();
  EXPECT_EQ(store_->pending(), 1U) << "what was denied may have been asked before the release";
}

TEST_F(WaitQueuesTest, ALastTryIsNotPutOff) {
  use_shared_permits();
  come({.timeout = seconds(1)});
  timer_->pass(seconds(1) - milliseconds(50));
  for (int i = 0; i < ReleaseFairness::kLeastGrants; ++i) {
    queues_->fairness().granted("k", timer_->now() - seconds(3));
  }
  queues_->fairness().released("k", timer_->now());  // A backoff of 100 ms begins.
  answer();
  EXPECT_EQ(store_->pending(), 0U);
  timer_->pass(milliseconds(50));
  ASSERT_EQ(store_->pending(), 1U) << "it asks a last time when its timeout ends";
  answer();
  EXPECT_THAT(denied_, ElementsAre(1));
  EXPECT_EQ(outcomes_[1].decision.ended, Ended::kTimedOut);
}

TEST_F(WaitQueuesTest, ACallerThatAsksDirectlyDoesNotOvertake) {
  use_shared_permits();
  come({.directly = true});
  come({.directly = true});
  EXPECT_THAT(asked(), ElementsAre(1, 2))
      << "the queue is empty, so they do not wait for each other";
  answer();
  EXPECT_THAT(asked(), ElementsAre(1)) << "denied, it waits, and asks once more";
  come({.directly = true});
  EXPECT_THAT(asked(), IsEmpty());
  grant(true);
  while (store_->pending() > 0) {
    answer();
  }
  EXPECT_THAT(granted_, ElementsAre(2, 1, 3));
}

/// A caller waits while its process passes permits on, until that backs off.
class BackoffTest : public WaitQueuesTest {
 protected:
  void wait() {
    use_shared_permits();
    store_->tells = true;
    come();
    answer_all();
  }

  void pass_permits_on(nanoseconds time) {
    for (int i = 0; i < ReleaseFairness::kLeastGrants; ++i) {
      queues_->fairness().granted("k", timer_->now());
      timer_->pass(time / ReleaseFairness::kLeastGrants);
      answer_all();
      queues_->fairness().released("k", timer_->now());
    }
    grant(true);
    queues_->released("k");
  }

  void expect_backoff(nanoseconds backoff) {
    timer_->pass(backoff - nanoseconds(1));
    EXPECT_EQ(store_->pending(), 0U) << "others come first for a moment";
    timer_->pass(nanoseconds(1));
    EXPECT_EQ(store_->pending(), 1U);
    answer_all();
    EXPECT_THAT(granted_, ElementsAre(1));
  }
};

TEST_F(BackoffTest, IsBriefWhereTheStoreTells) {
  wait();
  store_->tell();
  timer_->run();
  answer_all();
  pass_permits_on(milliseconds(100));
  expect_backoff(milliseconds(4));
}

TEST_F(BackoffTest, IsLongWhereTheStoreIsAskedToTellAndDoesNot) {
  wait();
  pass_permits_on(milliseconds(100));
  timer_->run();
  EXPECT_EQ(store_->pending(), 1U) << "its run lasts longer";
  grant(false);
  answer_all();
  pass_permits_on(milliseconds(1900));
  expect_backoff(milliseconds(100));
}

TEST_F(BackoffTest, ACallerThatHasNoTimeForItAsksDirectly) {
  use_shared_permits();
  pass_permits_on(seconds(2));
  come({.timeout = milliseconds(100), .directly = true});
  EXPECT_EQ(store_->pending(), 1U);
  come({.directly = true});
  EXPECT_EQ(store_->pending(), 1U);
  timer_->pass(milliseconds(100));
  EXPECT_EQ(store_->pending(), 2U);
}

TEST_F(BackoffTest, IsNotEndedByACallerThatHasNoTimeForIt) {
  use_shared_permits();
  come({.timeout = seconds(2) + milliseconds(50)});
  come();
  pass_permits_on(seconds(2));
  grant(false);
  timer_->pass(milliseconds(50));
  answer_all();
  EXPECT_THAT(denied_, ElementsAre(1));
  EXPECT_EQ(store_->pending(), 0U);
  timer_->pass(milliseconds(50));
  EXPECT_EQ(store_->pending(), 1U);
}

/// Runs at once what is due, before at() returns, as another thread may.
class HastyTimerQueue final : public TimerQueue {
 public:
  TimePoint now() const override { return TimePoint(std::chrono::hours(1)); }
  void cancel(const Timer&) override {}

 private:
  Timer add(Timer timer, Task task) override {
    if (timer.when <= now()) task();
    return timer;
  }
};

TEST_F(WaitQueuesTest, ACallerThatAsksIsSeenToWait) {
  binding_ = bind_to_timer(store_, Limit("fixed_window 5/1m"), LimitBinding::Kind::kUnits,
                           std::make_shared<HastyTimerQueue>());
  std::vector<std::size_t> seen;
  store_->says = [&](const Request&) {
    seen.push_back(binding_->queues()->waiting());
    return Decision{.retry_after = seconds(60)};
  };
  std::stop_source stop;
  WaitQueues::wait({{.binding = binding_, .key = "k"}, TimerQueue::kEndOfTime}, std::nullopt,
                   stop.get_token(), [](const AcquireOutcome&) {});
  stop.request_stop();
  EXPECT_THAT(seen, ElementsAre(1)) << "else a release right afterwards would wake no caller";
}

TEST_F(WaitQueuesTest, ACallerLeavesWhenItsTimeoutIsOver) {
  use_permits();
  come({.timeout = seconds(10)});
  come({.timeout = seconds(5)});
  come();
  timer_->pass(seconds(5) - nanoseconds(1));
  EXPECT_THAT(denied_, IsEmpty());
  timer_->pass(nanoseconds(1));
  EXPECT_THAT(denied_, ElementsAre(2));
  EXPECT_EQ(outcomes_[2].decision.retry_after, seconds(55)) << "the queue's last denial, aged";
  EXPECT_EQ(outcomes_[2].decision.ended, Ended::kTimedOut);
  timer_->pass(seconds(5));
  EXPECT_THAT(denied_, ElementsAre(2, 1));
  EXPECT_EQ(outcomes_[1].decision.ended, Ended::kTimedOut);
  EXPECT_FALSE(queues_->is_empty("k", binding_->bound().limit));
  grant(true);
  release();
  EXPECT_THAT(granted_, ElementsAre(3));
  EXPECT_EQ(timer_->timers(), 0U);
}

TEST_F(WaitQueuesTest, AnAnswerUnderWayWhenTheTimeoutIsOverIsTheLast) {
  use_shared_permits();
  come({.timeout = seconds(1)});
  come({.timeout = seconds(3)});
  timer_->pass(seconds(2));
  EXPECT_THAT(denied_, IsEmpty());
  answer();
  EXPECT_THAT(denied_, ElementsAre(1));
  EXPECT_EQ(store_->pending(), 1U) << "the next one asks at once";

  timer_->pass(seconds(1));
  grant(true);
  answer();
  EXPECT_THAT(granted_, ElementsAre(2));
}

// It asks directly, and so is in no queue when its timeout is over.
TEST_F(WaitQueuesTest, ATimeoutThatPassesWhileTheStoreIsAskedFirstIsToldAsOne) {
  use_shared_permits();
  for (const nanoseconds timeout : {nanoseconds(seconds(1)), nanoseconds(0)}) {
    come({.timeout = timeout, .directly = true});
    timer_->pass(seconds(2));
    answer();
  }
  EXPECT_EQ(outcomes_.at(1).decision.ended, Ended::kTimedOut);
  EXPECT_EQ(outcomes_.at(2).decision.ended, Ended::kAnswered) << "it would not have waited";

  store_->answers = ScriptedStore::Answers::kAtOnce;
  store_->on_the_way = [&] { timer_->freeze(seconds(2)); };
  const AcquireRequest request({.binding = binding_, .key = "k"}, timer_->after(seconds(1)), 3);
  const AcquireOutcome late = WaitQueues::acquire_blocking(request, {});
  EXPECT_EQ(late.decision.ended, Ended::kTimedOut) << "of a call that blocks";
}

TEST_F(WaitQueuesTest, ACallerStopsAtOnceAndWhatComesTooLateIsReturned) {
  use_shared_permits();
  std::stop_source stop;
  come({.stop = stop.get_token()});
  come();
  stop.request_stop();
  timer_->run();
  EXPECT_THAT(denied_, ElementsAre(1));
  EXPECT_THAT(asked(), ElementsAre(1));
  grant(true);
  answer();
  ASSERT_EQ(store_->asked.size(), 2U);
  EXPECT_EQ(store_->asked[0].operation, Operation::kRelease);
  EXPECT_EQ(store_->asked[0].permit, 1U);
  EXPECT_EQ(store_->asked[1].permit, 2U) << "the next one asks";
  store_->answer();
  answer();
  EXPECT_THAT(granted_, ElementsAre(2));
}

TEST_F(WaitQueuesTest, WhatComesTooLateIsNotReturnedIfTheStoreHasNoRecordOfIt) {
  use_window();
  answer_later();
  store_->says = [](const Request& request) {
    return Decision{.allowed = true,
                    .source = request.key == "f" ? Source::kFull : Source::kStore,
                    .reset_after = seconds(60)};
  };
  std::stop_source stop;
  for (const char* key : {"k", "f", "other"}) come({.stop = stop.get_token(), .key = key});
  stop.request_stop();
  timer_->run();
  queues_->callers().begin_reset("k");  // The store has not answered yet.
  answer_all();
  ASSERT_EQ(store_->asked.size(), 6U);
  EXPECT_EQ(store_->asked[3].cost, 0) << "others may have taken it since the reset";
  EXPECT_EQ(store_->asked[4].cost, 0) << "the store was full";
  EXPECT_EQ(store_->asked[4].giver, Source::kFull);
  EXPECT_EQ(store_->asked[5].cost, 1);
}

TEST_F(WaitQueuesTest, ACallerWithoutAPlaceIsToldItsOwnDenialOrThatOfTheQueue) {
  most_waiting_ = 1;
  use_window();
  come();
  come({.denied = Decision{.retry_after = seconds(90)}});
  come();
  EXPECT_THAT(denied_, ElementsAre(2, 3));
  EXPECT_EQ(outcomes_[2].decision.retry_after, seconds(90));
  EXPECT_EQ(outcomes_[3].decision.retry_after, seconds(60));
}

TEST_F(WaitQueuesTest, ACallerThatIsStoppedBeforeItComesDoesNotAsk) {
  use_permits();
  std::stop_source stop;
  stop.request_stop();
  come({.stop = stop.get_token(), .directly = true});  // The store would answer at once.
  answer_later();
  come({.stop = stop.get_token()});
  come({.stop = stop.get_token(), .directly = true});
  EXPECT_THAT(denied_, ElementsAre(1, 2, 3));
  for (const int number : {1, 2, 3}) {
    EXPECT_EQ(outcomes_[number].decision.retry_after, kSoon);
    EXPECT_EQ(outcomes_[number].decision.limit, 1) << "it is known without the store";
  }
  EXPECT_THAT(asked(), IsEmpty());
  EXPECT_TRUE(queues_->is_empty("k", binding_->bound().limit));
}

TEST_F(WaitQueuesTest, ALostAnswerIsAnError) {
  use_permits();
  store_->lose_all();
  come();
  ASSERT_TRUE(outcomes_[1].error);
  EXPECT_THROW(std::rethrow_exception(outcomes_[1].error), StoreError);
}

TEST_F(WaitQueuesTest, WhatTheStoreRefusesIsAnError) {
  use_window();
  const AcquireClaim claim{.binding = binding_, .key = "k"};
  AcquireRequest request(claim, TimerQueue::kEndOfTime);
  request.claims.push_back(claim);  // The same limit and key.
  AcquireOutcome refused;
  WaitQueues::wait(std::move(request), std::nullopt, {},
                   [&](const AcquireOutcome& outcome) { refused = outcome; });
  timer_->run();
  ASSERT_TRUE(refused.error);
  EXPECT_THROW(std::rethrow_exception(refused.error), std::invalid_argument);
}

// Its queue is told of other keys only. The first block is that before it comes to wait there.
TEST_F(WaitQueuesTest, ABlockOfAnotherClaimIsNotMissed) {
  use_window();
  const auto other = bind_to_timer(store_, Limit("fixed_window 7/1m", "other"),
                                   LimitBinding::Kind::kUnits, timer_);
  for (const bool waits : {false, true}) {
    AcquireRequest request({.binding = binding_, .key = "k"}, TimerQueue::kEndOfTime);
    request.claims.push_back({.binding = other, .key = "other"});
    WaitQueues::wait(std::move(request), std::nullopt, {},
                     [this](const AcquireOutcome& outcome) { outcomes_[1] = outcome; });
    if (waits) timer_->run();
    other->queues()->callers().wake("other", Waking::kBlocked,
                                    {.limit = 7, .retry_after = std::chrono::hours(9)});
    timer_->run();
    ASSERT_TRUE(outcomes_.contains(1));
    const Decision denied = outcomes_.extract(1).mapped().decision;
    EXPECT_EQ(denied.binding, 1);
    EXPECT_EQ(denied.limit, 7);
    EXPECT_EQ(denied.retry_after, std::chrono::hours(9));
    EXPECT_EQ(queues_->waiting(), 0U);
  }
}

TEST_F(WaitQueuesTest, ABlockOnItsWayToItsQueueDeniesACaller) {
  use_window();
  WaitQueues::wait({{.binding = binding_, .key = "k"}, TimerQueue::kEndOfTime}, std::nullopt, {},
                   [this](const AcquireOutcome& outcome) { outcomes_[1] = outcome; });
  queues_->callers().wake("k", Waking::kBlocked, {.retry_after = std::chrono::hours(9)});
  timer_->run();
  ASSERT_TRUE(outcomes_.contains(1));
  EXPECT_EQ(outcomes_[1].decision.retry_after, std::chrono::hours(9));
}

TEST_F(WaitQueuesTest, ABlockDeniesAllThatWaitAtOnce) {
  use_shared_permits();
  come();
  come({.timeout = seconds(1)});
  queues_->callers().wake("k", Waking::kBlocked,
                          {.limit = 1, .retry_after = std::chrono::hours(9)});
  timer_->pass(seconds(1));
  ASSERT_THAT(denied_, ElementsAre(1, 2)) << "though the store has not answered the first";
  for (const int number : {1, 2}) {
    EXPECT_EQ(outcomes_.at(number).decision.ended, Ended::kAnswered);
    EXPECT_EQ(outcomes_.at(number).decision.retry_after, std::chrono::hours(9));
  }
  grant(true);
  answer_all();
  EXPECT_EQ(store_->asked.back().operation, Operation::kRelease) << "what comes too late";

  store_->answers = ScriptedStore::Answers::kAtOnce;
  grant(false);
  come();
  queues_->callers().wake("k", Waking::kBlocked, {.retry_after = seconds(1)});
  timer_->run();
  EXPECT_EQ(outcomes_.at(3).decision.retry_after, retry_after_) << "it was denied for longer";
}

// Of windows, and of limits of one name.

TEST_F(WaitQueuesTest, OfAWindowTheFirstAsksExactlyWhenItMayBeGranted) {
  use_window();
  answer_later();
  retry_after_ = milliseconds(800);
  come({.denied = Decision{.retry_after = milliseconds(800)}});
  come({.cost = 3});
  ASSERT_EQ(store_->pending(), 1U) << "it may have been returned since it was denied";
  store_->answer();
  timer_->pass(milliseconds(800) - nanoseconds(1));
  EXPECT_EQ(store_->pending(), 0U);
  timer_->pass(nanoseconds(1));
  ASSERT_EQ(store_->pending(), 1U);
  EXPECT_EQ(store_->asked[1].patience_ns, nanoseconds(milliseconds(99'200)).count())
      << "of its patience, that much is left";
  grant(true);
  answer();
  EXPECT_EQ(store_->asked[2].cost, 3);
  answer();
  EXPECT_THAT(granted_, ElementsAre(1, 2));
}

// Another process may have returned units. With the round trip it is less than a second.
TEST_F(WaitQueuesTest, OfAWindowThatOthersShareTheFirstAsksWithinASecond) {
  use_window();
  retry_after_ = seconds(20);
  std::stop_source stop;
  come({.stop = stop.get_token()});
  timer_->pass(seconds(20) - nanoseconds(1));
  EXPECT_EQ(store_->asked.size(), 1U) << "no other process has units of this store";
  stop.request_stop();
  timer_->run();
  answer_later();
  come({.directly = true});
  answer();
  EXPECT_EQ(store_->asked[1].most_denial_age_ns, kMaxInt64) << "it has come just now";
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(store_->pending(), 1U);
    EXPECT_EQ(store_->asked.back().most_denial_age_ns, nanoseconds(milliseconds(100)).count());
    timer_->pass(milliseconds(100));
    answer();
    timer_->pass(milliseconds(750) - nanoseconds(1));
    EXPECT_EQ(store_->pending(), 0U);
    timer_->pass(nanoseconds(1));
  }
  grant(true);
  answer_all();
  EXPECT_THAT(granted_, ElementsAre(2));
}

TEST_F(WaitQueuesTest, OfAWindowNoCallerWaitsInVain) {
  use_window();
  answer_later();
  retry_after_ = seconds(20);
  const auto come_directly = [&](nanoseconds timeout) {
    come({.timeout = timeout, .directly = true});
    answer_all();
  };
  come_directly(seconds(20));
  answer_all();
  EXPECT_THAT(denied_, IsEmpty()) << "it may be granted when its timeout ends";
  come({.timeout = seconds(20) - nanoseconds(1)});
  EXPECT_THAT(denied_, ElementsAre(2)) << "it cannot be granted before the one that waits already";
  grant(true);
  timer_->pass(seconds(20));
  answer_all();
  EXPECT_THAT(granted_, ElementsAre(1));
  grant(false);
  come_directly(seconds(20) - nanoseconds(1));
  EXPECT_THAT(denied_, ElementsAre(2, 3));
  EXPECT_EQ(outcomes_[3].decision.retry_after, seconds(20));
}

// Several claims: the second comes from the queue of another one, with the denial that it had
// there.
TEST_F(WaitQueuesTest, OfAWindowTheDenialOfTheFirstIsThatOfTheQueue) {
  use("sliding_log 10/60s", LimitBinding::Kind::kUnits);
  retry_after_ = seconds(55);
  std::stop_source stop;
  come({.cost = 10, .stop = stop.get_token()});
  come({.denied = Decision{.retry_after = seconds(5)}});
  come({.timeout = seconds(8)});
  EXPECT_THAT(denied_, ElementsAre(3)) << "it cannot be granted before the first";
  timer_->pass(seconds(3));
  stop.request_stop();
  timer_->run();
  EXPECT_EQ(outcomes_[1].decision.retry_after, seconds(52));
}

TEST_F(WaitQueuesTest, OfAWindowTheNextMayWantLess) {
  use_window();
  std::stop_source stop;
  store_->says = [](const Request& request) {
    return request.cost > 1 ? Decision{.retry_after = seconds(20)} : Decision{.allowed = true};
  };
  come({.cost = 3, .stop = stop.get_token()});
  come();
  timer_->pass(seconds(1));
  EXPECT_THAT(granted_, IsEmpty());
  stop.request_stop();
  timer_->run();
  EXPECT_THAT(granted_, ElementsAre(2));
}

TEST_F(WaitQueuesTest, ACostThatCanNeverBeAdmittedIsAskedForAtOnce) {
  for (const char* expression : {"fixed_window 5/1m", "sliding_log 9/1m & fixed_window 5/1m",
                                 "fixed_window 20/1m & token_bucket 5/1m borrow=yes"}) {
    binding_ = nullptr;
    outcomes_.clear();
    use(expression, LimitBinding::Kind::kUnits);
    std::stop_source stop;
    come({.stop = stop.get_token()});
    asked();
    come({.cost = 6, .stop = stop.get_token(), .directly = true});
    EXPECT_EQ(asked().size(), std::string_view(expression).ends_with("borrow=yes") ? 0U : 1U);
    stop.request_stop();
    timer_->run();
  }
}

TEST_F(WaitQueuesTest, ADenialForeverIsForItsCostOnly) {
  use_window();
  answer_later();
  retry_after_ = kNever;
  std::stop_source stop;
  come({.cost = 11});
  come();
  come({.stop = stop.get_token()});
  answer();
  EXPECT_EQ(outcomes_[1].decision.retry_after, kNever);
  stop.request_stop();
  timer_->run();
  ASSERT_THAT(denied_, ElementsAre(1, 3));
  EXPECT_EQ(outcomes_[3].decision.retry_after, kSoon) << "the store was not asked about so few";
}

/// Two limiters of one name and numbers, one of which gets another limit.
class ReplacedLimitTest : public WaitQueuesTest {
 protected:
  void use_two_limiters() {
    use_permits();
    kept_ = binding_;
    use_permits();
  }
  int come_to_the_kept() {
    const auto binding = std::exchange(binding_, kept_);
    const int number = come();
    binding_ = binding;
    return number;
  }
  void replace() {
    binding_->set_limit(Limit("concurrency 2 lease=60s", "limit"));
    queues_->callers().limit_replaced();
    timer_->run();
  }

  std::shared_ptr<LimitBinding> kept_;
};

TEST_F(ReplacedLimitTest, ItsCallersWaitForTheNewOneInTheirOrder) {
  use_two_limiters();
  come_to_the_kept();
  come();
  come_to_the_kept();
  come();
  EXPECT_THAT(asked(), ElementsAre(1));
  replace();
  EXPECT_THAT(asked(), ElementsAre(1, 2)) << "the first of each queue";
  EXPECT_FALSE(queues_->is_empty("k", kept_->bound().limit));
  EXPECT_FALSE(queues_->is_empty("k", binding_->bound().limit));
  grant(true);
  release();
  EXPECT_THAT(granted_, UnorderedElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(std::ranges::find(granted_, 2) < std::ranges::find(granted_, 4));
  EXPECT_EQ(queues_->waiting(), 0U);
}

TEST_F(ReplacedLimitTest, CallersOfAnotherLimiterDoNotAsk) {
  use_two_limiters();
  come_to_the_kept();
  asked();
  replace();
  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(ReplacedLimitTest, NoCallerOvertakesOneThatAsksMeanwhile) {
  for (const bool is_granted : {false, true}) {
    SCOPED_TRACE(is_granted);
    answer_later();
    use_two_limiters();
    grant(is_granted);
    const int first = come();
    const int second = come();
    const int of_the_kept = come_to_the_kept();
    const int last = come();
    replace();
    granted_.clear();
    answer();
    grant(true);
    answer_all();
    while (store_->pending() > 0) answer();
    std::erase(granted_, of_the_kept);
    EXPECT_THAT(granted_, ElementsAre(first, second, last));
    EXPECT_EQ(queues_->waiting(), 0U);
  }
}

TEST_F(ReplacedLimitTest, NoCallerOvertakesOneThatIsAnsweredBeforeItsQueueIsTold) {
  answer_later();
  use_two_limiters();
  for (int i = 0; i < 3; ++i) come();
  binding_->set_limit(Limit("concurrency 2 lease=60s", "limit"));
  answer();
  EXPECT_THAT(asked(), ElementsAre(1, 1)) << "in the new queue";
  queues_->callers().limit_replaced();
  timer_->run();
  grant(true);
  while (store_->pending() > 0) answer();
  EXPECT_THAT(granted_, ElementsAre(1, 2, 3));
}

// It may have come so lately that the thread which replaces the limit does not see its queue.
TEST_F(ReplacedLimitTest, ACallerWhoseQueueIsNeverToldGoesToo) {
  use_shared_permits();
  come({.timeout = seconds(1)});
  binding_->set_limit(Limit("concurrency 2 lease=60s", "limit"));
  answer();
  EXPECT_FALSE(queues_->is_empty("k", binding_->bound().limit));
  answer();
  EXPECT_EQ(store_->pending(), 0U) << "it waits";
  timer_->pass(seconds(1));
  answer();
  EXPECT_THAT(denied_, ElementsAre(1));
}

TEST_F(ReplacedLimitTest, ACallerThatAsksMeanwhileGoesWhenItIsAnswered) {
  use_two_limiters();
  answer_later();
  come();
  come_to_the_kept();
  replace();
  EXPECT_EQ(store_->pending(), 1U);
  retry_after_ = kNever;  // Under the former limit.
  answer();
  EXPECT_THAT(denied_, IsEmpty());
  EXPECT_THAT(asked(), ElementsAre(1, 2, 1)) << "the next one of its queue, and it in the new one";
  grant(true);
  answer_all();
  EXPECT_THAT(granted_, ElementsAre(2, 1));
}

}  // namespace
}  // namespace sluice
