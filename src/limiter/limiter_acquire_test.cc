#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "fallback/fallback_store.h"
#include "sluice/limiter.h"
#include "sluice/manual_clock.h"
#include "sluice/permit.h"
#include "testing/acquire_fixture.h"
#include "testing/child_process.h"
#include "testing/without_threads.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// Acquiring from a memory store, by the real clock.
class AcquireTest : public AcquireFixture {
 protected:
  struct Answer {
    Decision decision;
    std::exception_ptr error;
  };

  Limiter& use(const std::string& expression) {
    limit_.emplace(expression, "limit");
    limiter_.emplace(store_, *limit_);
    return *limiter_;
  }

  void await_waiting(std::size_t count) { AcquireFixture::await_waiting(*limiter_, count); }

  /// The answer to an asynchronous call.
  std::future<Answer> begin(Limiter& limiter, std::int64_t cost = 1,
                            nanoseconds patience = kForever, std::stop_token stop = {}) {
    const auto promise = std::make_shared<std::promise<Answer>>();
    const auto answered = [promise](const Decision& decision, std::exception_ptr error) {
      promise->set_value({decision, std::move(error)});
    };
    limiter.async_acquire("k", cost, patience, answered, std::move(stop));
    return promise->get_future();
  }

  std::optional<Limit> limit_;
  std::optional<Limiter> limiter_;
};

TEST_F(AcquireTest, RefusesNumbersOutOfRange) {
  Limiter& limiter = use("fixed_window 2/1h");
  EXPECT_THROW(limiter.acquire("k", -1), std::invalid_argument);
  EXPECT_THROW(limiter.acquire("k", 1, nanoseconds(-1)), std::invalid_argument);
  EXPECT_THROW(std::rethrow_exception(begin(limiter, -1).get().error), std::invalid_argument);
}

TEST_F(AcquireTest, ReturnsWhatItNoLongerWaitsFor) {
  Limiter& limiter = use("token_bucket 1/1h");
  limiter.acquire("k");
  std::stop_source stop;
  store_->on_the_way = [&] {  // It is asked first without patience.
    store_->on_the_way = [&] { stop.request_stop(); };
  };
  const Decision decision = limiter.acquire("k", 1, kForever, stop.get_token());
  EXPECT_FALSE(decision.allowed);
  EXPECT_EQ(decision.ended, Ended::kStopped);
  EXPECT_GT(decision.retry_after, seconds(3590));
  EXPECT_EQ(decision.delay, nanoseconds(0));
  EXPECT_LE(limiter.peek("k").reset_after, hours(1));
}

TEST_F(AcquireTest, AsksAStoreOnAnotherMachineOnce) {
  store_->answers = ScriptedStore::Answers::kWhenTold;
  Limiter& limiter = use("token_bucket 1/1h");
  EXPECT_TRUE(limiter.acquire("k"));
  EXPECT_FALSE(limiter.acquire("k", 1, seconds(1)));
  EXPECT_EQ(store_->asked.size(), 2U);
}

TEST_F(AcquireTest, ACallerThatIsStoppedBeforeItComesGetsNothing) {
  Limiter& limiter = use("token_bucket 1/1h");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(limiter.acquire("k", 1, kForever, stop.get_token()).ended, Ended::kStopped);
  EXPECT_EQ(limiter.peek("k").remaining, 1);
}

/// A caller that waits for a window gets returned units at once.
class WakingTest : public AcquireTest {
 protected:
  void take_and_wait(Limiter& limiter) {
    limiter.acquire("k");
    answer_ = begin(limiter);
  }

  bool is_granted() {
    return answer_.wait_for(seconds(10)) == std::future_status::ready &&
           answer_.get().decision.allowed;
  }

  std::future<Answer> answer_;
};

// By calls that block, and by calls that do not, once the store has answered them.
TEST_F(WakingTest, ByEachCallThatReturnsUnits) {
  const auto ignore = [](const auto&...) {};
  using Act = std::function<void(Limiter&, Reservation)>;
  const Act blocking[] = {[](Limiter& limiter, Reservation) { limiter.refund("k", 1); },
                          [](Limiter& limiter, Reservation) { limiter.reset("k"); },
                          [](Limiter&, Reservation two) { two.commit(1); },
                          [](Limiter&, Reservation two) { two.cancel(); },
                          [](Limiter& limiter, Reservation) {
                            limiter.set_limit(Limit("fixed_window 4/1h anchor=first", "limit"));
                          }};
  const Act later[] = {[&](Limiter& limiter, Reservation) { limiter.async_refund("k", 1, ignore); },
                       [&](Limiter& limiter, Reservation) { limiter.async_reset("k", ignore); },
                       [&](Limiter&, Reservation two) { two.async_commit(1, ignore); },
                       [&](Limiter&, Reservation two) { two.async_cancel(ignore); }};
  const auto wait_beside_two = [&] {
    store_ = std::make_shared<ScriptedStore>();
    Limiter& limiter = use("fixed_window 3/1h anchor=first");
    Reservation two = limiter.reserve("k", 2);
    take_and_wait(limiter);
    await_waiting(1);
    return two;
  };
  for (const Act& act : blocking) {
    SCOPED_TRACE(&act - blocking);
    Reservation two = wait_beside_two();
    act(*limiter_, std::move(two));
    EXPECT_TRUE(is_granted());
  }
  for (const Act& act : later) {
    SCOPED_TRACE(&act - later);
    Reservation two = wait_beside_two();
    store_->answers = ScriptedStore::Answers::kWhenTold;
    act(*limiter_, std::move(two));
    pass_timer_thread();
    EXPECT_EQ(waiting_callers(*store_, *limit_), 1U);
    store_->answers = ScriptedStore::Answers::kAtOnce;  // For the one that is woken.
    store_->answer_all();
    EXPECT_TRUE(is_granted());
  }
}

// Also with a deny cache, which must forget the denial.
TEST_F(WakingTest, ByARefundBetweenItsDenialAndItsPlaceInTheQueue) {
  Limiter& direct = use("fixed_window 1/1h anchor=first");
  Limiter cached(std::make_shared<FallbackStore>(store_, FallbackOptions()),
                 Limit("fixed_window 1/1h anchor=first", "cached"));
  for (Limiter* limiter : {&direct, &cached}) {
    limiter->acquire("k");
    store_->on_the_way = [&] { limiter->refund("k", 1); };
    answer_ = begin(*limiter);
    EXPECT_TRUE(is_granted());
  }
}

TEST_F(WakingTest, ByAReturnToALimitWhoseKeysStartFresh) {
  Limiter& limiter = use("fixed_window 1/1h anchor=first");
  take_and_wait(limiter);
  await_waiting(1);
  auto second = begin(limiter);
  await_waiting(2);
  limiter.set_limit(Limit("fixed_window 1/2h anchor=first", "limit"));
  EXPECT_TRUE(is_granted());
  std::stop_source stop;
  auto newcomer = begin(limiter, 1, kForever, stop.get_token());
  limiter.refund("k", 1);
  ASSERT_EQ(second.wait_for(seconds(10)), std::future_status::ready);
  EXPECT_TRUE(second.get().decision.allowed);
  EXPECT_EQ(newcomer.wait_for(seconds(0)), std::future_status::timeout)
      << "it stands behind those that wait";
  stop.request_stop();
  EXPECT_FALSE(newcomer.get().decision.allowed);
}

TEST_F(AcquireTest, RaisesWhereTheStoreDoes) {
  Limiter& limiter = use("fixed_window 1/1h");
  store_->lose_all();
  EXPECT_THROW(limiter.acquire("k"), StoreError);
  EXPECT_THROW(std::rethrow_exception(begin(limiter).get().error), StoreError);
}

// In a child of fork(), which has no timer thread yet.
TEST_F(AcquireTest, TakesNothingIfTheSystemCannotStartTheTimerThread) {
  using Acquire = std::function<void(Limiter&)>;
  const Acquire ways[] = {[](Limiter& limiter) { limiter.acquire("k"); },
                          [&](Limiter& limiter) {
                            if (const auto error = begin(limiter).get().error) {
                              std::rethrow_exception(error);
                            }
                          }};
  for (const Acquire& acquire : ways) {
    SCOPED_TRACE(&acquire - ways);
    EXPECT_EQ(in_child_process([&] {
                const WithoutThreads without_threads;
                Limiter& limiter = use("token_bucket 1/1h");
                limiter.acquire("k");
                try {
                  acquire(limiter);
                } catch (const std::system_error&) {
                  return limiter.peek("k").reset_after <= hours(1);
                } catch (const std::exception&) {
                }
                return false;
              }),
              0);
  }
}

TEST_F(AcquireTest, ACallbackThatWouldWaitForItsOwnThreadIsRefused) {
  Limiter& limiter = use("token_bucket 1/1h");
  limiter.acquire("k");
  Reservation reservation = limiter.reserve("k");
  std::promise<void> refused;
  TimerThread::shared()->post([&] {
    EXPECT_THROW(limiter.acquire("k"), std::logic_error);
    EXPECT_THROW(reservation.wait(), std::logic_error);
    refused.set_value();
  });
  refused.get_future().get();
  EXPECT_LE(limiter.peek("k").reset_after, hours(2)) << "that call has taken nothing";
}

TEST_F(AcquireTest, WaitsInAChildOfForkByATimerThreadOfItsOwn) {
  const auto status_of_child = [&] {
    return in_child_process([&] {
      Limiter& limiter = use("token_bucket 1/100ms");
      return limiter.acquire("k").allowed && limiter.acquire("k").allowed;
    });
  };
  pass_timer_thread();
  EXPECT_EQ(status_of_child(), 0);
  std::promise<int> in_callback;
  TimerThread::shared()->post([&] { in_callback.set_value(status_of_child()); });
  EXPECT_EQ(in_callback.get_future().get(), 0) << "of a fork in a callback";
}

TEST_F(AcquireTest, NeedsNoTimerThreadForAReservationThatIsReady) {
  EXPECT_EQ(in_child_process([&] {
              const WithoutThreads without_threads;
              try {
                return use("token_bucket 1/1h").reserve("k").wait();
              } catch (const std::system_error&) {
                return false;
              }
            }),
            0);
}

/// A block of nine hours has denied each of them.
void expect_blocked(const std::vector<Decision>& answers) {
  for (const Decision& denied : answers) {
    EXPECT_FALSE(denied.allowed);
    EXPECT_GT(denied.retry_after, hours(8));
    EXPECT_EQ(denied.ended, Ended::kAnswered);
  }
}

/// Callers that wait in the queue of a window, or for units of a bucket that they have reserved.
class WaitingCallersTest : public AcquireTest, public testing::WithParamInterface<const char*> {
 protected:
  bool is_bucket() const { return std::string_view(GetParam()).starts_with("token_bucket"); }

  void await_callers(std::size_t count) {
    if (!is_bucket()) return await_waiting(count);
    const auto queues = store_->open_space(limit_->definition())->attachment<WaitQueues>();
    while (queues->callers().size() != count) std::this_thread::yield();
  }

  // In a blocking call on a thread of its own, and in an asynchronous call.
  void take_and_wait(Limiter& limiter) {
    limiter.check("k");
    blocking_ = std::async(std::launch::async, [this, &limiter] {
      return limiter.acquire("k", 1, kForever, stop_.get_token());
    });
    await_callers(1);
    later_ = begin(limiter, 1, kForever, stop_.get_token());
    await_callers(2);
  }

  /// What both are answered; after ten seconds they are stopped.
  std::vector<Decision> answers() {
    const auto deadline = steady_clock::now() + seconds(10);
    if (blocking_.wait_until(deadline) != std::future_status::ready ||
        later_.wait_until(deadline) != std::future_status::ready) {
      ADD_FAILURE() << "a caller waits";
      stop_.request_stop();
    }
    return {blocking_.get(), later_.get().decision};
  }

  void TearDown() override { stop_.request_stop(); }

  std::stop_source stop_;
  std::future<Decision> blocking_;
  std::future<Answer> later_;
};

INSTANTIATE_TEST_SUITE_P(All, WaitingCallersTest,
                         testing::Values("token_bucket 1/1h", "fixed_window 1/1h anchor=first"),
                         [](const auto& limit) { return limit.index == 0 ? "Bucket" : "Window"; });

TEST_P(WaitingCallersTest, AreDeniedByABlock) {
  Limiter& limiter = use(GetParam());
  take_and_wait(limiter);
  limiter.block("k", hours(9));
  expect_blocked(answers());
  limiter.reset("k");
  EXPECT_TRUE(limiter.check("k").allowed);
}

TEST_P(WaitingCallersTest, AskAgainAtOnceAfterAReset) {
  Limiter& limiter = use(GetParam());
  take_and_wait(limiter);
  limiter.reset("k");
  await_callers(1);
  EXPECT_LE(limiter.peek("k").reset_after, hours(2)) << "one was admitted, one waits again";
  // The caller may not have begun to wait again: then it does not see a reset.
  const auto is_there = [](const auto& future) {
    return future.wait_for(nanoseconds(0)) == std::future_status::ready;
  };
  const auto deadline = steady_clock::now() + seconds(10);
  while (!is_there(blocking_) || !is_there(later_)) {
    ASSERT_LT(steady_clock::now(), deadline);
    limiter.reset("k");
    std::this_thread::yield();
  }
  EXPECT_TRUE(blocking_.get().allowed);
  EXPECT_TRUE(later_.get().decision.allowed);
}

TEST_P(WaitingCallersTest, AskAgainAtOnceByAnotherLimit) {
  Limiter& limiter = use(GetParam());
  take_and_wait(limiter);
  limiter.set_limit(
      Limit(is_bucket() ? "token_bucket 1/1h burst=9" : "fixed_window 9/1h anchor=first", "limit"));
  for (const Decision& decision : answers()) EXPECT_TRUE(decision.allowed);
}

TEST_P(WaitingCallersTest, AreDeniedIfThereIsNoPlaceForThem) {
  const auto space = store_->open_space(Limit(GetParam(), "limit").definition());
  space->attachment<WaitQueues>(nullptr, 2);
  Limiter& limiter = use(GetParam());
  take_and_wait(limiter);
  const nanoseconds before = limiter.peek("k").reset_after;
  const Decision refused = without_waiting([&](std::stop_token stop) {
    return begin(limiter, 1, kForever, std::move(stop)).get().decision;
  });
  const Decision refused_too = without_waiting(
      [&](std::stop_token stop) { return limiter.acquire("k", 1, kForever, std::move(stop)); });
  for (const Decision& denied : {refused, refused_too}) {
    EXPECT_FALSE(denied.allowed);
    EXPECT_EQ(denied.ended, Ended::kAnswered);
    EXPECT_GT(denied.retry_after, is_bucket() ? minutes(179) : minutes(59));
  }
  EXPECT_LE(limiter.peek("k").reset_after, before) << "what was reserved is returned";
  stop_.request_stop();
  for (const Decision& decision : answers()) EXPECT_EQ(decision.ended, Ended::kStopped);
  std::stop_source stop;
  auto again = begin(limiter, 1, kForever, stop.get_token());
  await_callers(1);
  stop.request_stop();
  EXPECT_EQ(again.get().decision.ended, Ended::kStopped) << "there are places again";
}

// After the reset it is not known whether the store still counts what they have reserved, and the
// policy that answers a block blocks nothing.
TEST_F(AcquireTest, WhatTheStoreDidNotAnswerLeavesReservationsAlone) {
  for (const OnFailure policy : {OnFailure::kLocal, OnFailure::kAllow, OnFailure::kDeny}) {
    SCOPED_TRACE(static_cast<int>(policy));
    store_ = std::make_shared<ScriptedStore>();
    FallbackOptions options;
    options.on_failure = policy;
    Limiter limiter(std::make_shared<FallbackStore>(store_, options),
                    Limit("token_bucket 1/1h", "limit"));
    limiter.check("k");
    std::stop_source stop;
    auto answer = begin(limiter, 1, kForever, stop.get_token());
    pass_timer_thread();
    store_->lose_all();
    EXPECT_THROW(limiter.reset("k"), StoreError);
    if (policy != OnFailure::kLocal) limiter.block("k", hours(9));
    pass_timer_thread();
    EXPECT_EQ(answer.wait_for(seconds(0)), std::future_status::timeout) << "it goes on waiting";
    store_->lose_nothing();
    stop.request_stop();
    EXPECT_FALSE(answer.get().decision.allowed);
    EXPECT_GT(limiter.peek("k").reset_after, hours(1)) << "others may have taken it since";
  }
}

// The store may have made the reservation after it had reset the key: then it counts.
TEST_F(AcquireTest, AReservationMadeDuringAResetIsKept) {
  for (const bool is_blocking : {true, false}) {
    store_ = std::make_shared<ScriptedStore>();
    Limiter& limiter = use("token_bucket 1/1h");
    std::stop_source stop;
    std::future<Answer> answer;
    store_->on_the_way = [&] {
      limiter.check("k");
      answer = begin(limiter, 1, kForever, stop.get_token());
    };
    is_blocking ? limiter.reset("k") : limiter.async_reset("k", [](std::exception_ptr) {});
    pass_timer_thread();
    EXPECT_LE(limiter.peek("k").reset_after, hours(2)) << "two units were taken";
    EXPECT_GT(limiter.peek("k").reset_after, hours(1));
    stop.request_stop();
    EXPECT_EQ(answer.get().decision.ended, Ended::kStopped);
  }
}

/// While it exists, the timer thread runs nothing.
class HeldTimerThread {
 public:
  HeldTimerThread() {
    TimerThread::shared()->post([ends = ends_.get_future().share()] { ends.wait(); });
  }
  ~HeldTimerThread() { ends_.set_value(); }
  HeldTimerThread(const HeldTimerThread&) = delete;
  HeldTimerThread& operator=(const HeldTimerThread&) = delete;

 private:
  std::promise<void> ends_;
};

// Whatever else the caller that has reserved them learns before it learns of the reset.
TEST_F(AcquireTest, UnitsThatAResetHasForgottenAreNotReturned) {
  std::stop_source stop;
  Limiter* first = nullptr;
  using Act = std::function<void(Limiter&)>;
  const Act acts[] = {
      [](Limiter& limiter) { limiter.set_limit(Limit("token_bucket 2/1h", "limit")); },
      [](Limiter& limiter) { limiter.block("k", hours(9)); },
      [&](Limiter&) { stop.request_stop(); }, [&](Limiter&) { first->reset("k"); }};
  for (const Act& act : acts) {
    SCOPED_TRACE(&act - acts);
    stop = {};
    store_ = std::make_shared<ScriptedStore>();
    Limiter other(store_, Limit("token_bucket 2/1h", "other"));
    first = &other;
    Limiter& limiter = use("token_bucket 2/1h");
    limiter.check("k", 2);
    auto caller = std::async(std::launch::async, [&] {
      return acquire_all({{other, "k", 2}, {limiter, "k", 2}}, kForever, stop.get_token());
    });
    const auto queues = store_->open_space(limit_->definition())->attachment<WaitQueues>();
    while (queues->callers().size() != 1) std::this_thread::yield();
    {
      const HeldTimerThread held;
      act(limiter);
      limiter.reset("k");
      EXPECT_TRUE(limiter.check("k", 2).allowed);
    }
    pass_timer_thread();
    EXPECT_FALSE(limiter.check("k").allowed) << "it has admitted two since it was reset";
    stop.request_stop();
    EXPECT_FALSE(caller.get().allowed);
    EXPECT_FALSE(limiter.check("k").allowed);
  }
}

/// Something happens to the key after units of a bucket were reserved and before the caller waits
/// for them, in a blocking and in an asynchronous call.
class BeforeTheWaitTest : public AcquireTest {
 protected:
  std::vector<Decision> answers_if(const std::function<void(Limiter&)>& happens) {
    const auto reset = [&]() -> Limiter& {
      store_ = std::make_shared<ScriptedStore>();
      Limiter& limiter = use("token_bucket 1/1h");
      limiter.check("k");
      store_->on_the_way = [&] { happens(limiter); };
      return limiter;
    };
    Limiter& blocking = reset();
    const Decision answer = without_waiting(
        [&](std::stop_token stop) { return blocking.acquire("k", 1, kForever, std::move(stop)); });
    Limiter& later = reset();
    return {answer, without_waiting([&](std::stop_token stop) {
              return begin(later, 1, kForever, std::move(stop)).get().decision;
            })};
  }
};

TEST_F(BeforeTheWaitTest, ABlockDenies) {
  const auto block = [](Limiter& limiter) { limiter.block("k", hours(9)); };
  expect_blocked(answers_if(block));
}

TEST_F(BeforeTheWaitTest, AResetOrAnotherLimitLetsItAskAgain) {
  for (const Decision& decision : answers_if([](Limiter& limiter) { limiter.reset("k"); })) {
    EXPECT_TRUE(decision.allowed);
  }
  const auto replace = [](Limiter& limiter) {
    limiter.set_limit(Limit("token_bucket 1/1h burst=9", "limit"));
  };
  for (const Decision& decision : answers_if(replace)) EXPECT_TRUE(decision.allowed);
}

TEST_F(BeforeTheWaitTest, AnotherKeyIsNoneOfItsBusiness) {
  Limiter& limiter = use("token_bucket 1/1h");
  limiter.check("k");
  std::stop_source stop;
  store_->on_the_way = [&] {
    limiter.block("other", hours(9));
    limiter.reset("third");
  };
  auto answer = begin(limiter, 1, kForever, stop.get_token());
  pass_timer_thread();
  const auto takes = [](const auto& asked) {
    return asked.key == "k" && asked.operation == Operation::kTake;
  };
  EXPECT_EQ(std::ranges::count_if(store_->asked, takes), 2) << "it has not asked again";
  stop.request_stop();
  EXPECT_EQ(answer.get().decision.ended, Ended::kStopped);
}

/// Callers that need not wait, by a clock that stands still.
class NoWaitTest : public testing::Test {
 protected:
  Limiter limiter(const char* expression) { return Limiter(store_, Limit(expression)); }
  static DecisionCallback to(std::optional<Decision>& told) {
    return [&told](const Decision& decision, std::exception_ptr) { told = decision; };
  }

  ManualClock clock_;
  std::shared_ptr<Store> store_ = open_store("memory:", clock_);
};

TEST_F(NoWaitTest, APlaceInAFullQueueIsWaitedFor) {
  Limiter limiter = this->limiter("leaky_bucket 1/10s queue=1 & fixed_window 100/1h");
  limiter.check("k", 2);
  std::optional<Decision> told;
  limiter.async_acquire("k", 1, seconds(60), to(told));
  clock_.advance(seconds(19));
  EXPECT_FALSE(told);
  clock_.advance(seconds(1));
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->allowed);
}

// As the table of docs/limits.md, "A blocked key".
TEST_F(NoWaitTest, ABlockedKeyIsWaitedForUnlessABucketDeniesIt) {
  struct Case {
    const char* expression;
    bool waits;
    nanoseconds patience = seconds(10);
  };
  const Case cases[] = {{"fixed_window 5/1h", true},
                        {"sliding_log 5/1h", true},
                        {"sliding_window 5/1h", true},
                        {"sliding_counter 5/1h", true},
                        {"token_bucket 5/1h", false},
                        {"token_bucket 5/1h", false, kForever},
                        {"leaky_bucket 5/1h queue=4", false},
                        {"leaky_bucket 5/1h queue=4 & token_bucket 5/1h", false},
                        {"fixed_window 5/1h & token_bucket 5/1h", true},
                        {"token_bucket 5/1h & fixed_window 5/1h", false},
                        {"token_bucket 5/1h & fixed_window 5/1h", true, kForever},
                        {"leaky_bucket 5/1h queue=4 & fixed_window 5/1h", true}};
  for (const auto& [expression, waits, patience] : cases) {
    SCOPED_TRACE(std::string(expression) + (patience == kForever ? " without a timeout" : ""));
    Limiter limiter = this->limiter(expression);
    limiter.block("k", seconds(1));
    std::optional<Decision> told;
    limiter.async_acquire("k", 1, patience, to(told));
    clock_.advance(nanoseconds(0));
    EXPECT_EQ(told.has_value(), !waits);
    clock_.advance(seconds(1));
    ASSERT_TRUE(told);
    EXPECT_EQ(told->allowed, waits);
    EXPECT_EQ(told->retry_after, waits ? seconds(0) : seconds(1));
  }
}

// The window has ended, and others have used the next one up.
TEST_F(NoWaitTest, AStoppedCallerReturnsUnitsToThePartsThatCountThem) {
  Limiter limiter = this->limiter("token_bucket 1/1h & fixed_window 2/1s anchor=first");
  for (const bool blocks : {false, true}) {
    SCOPED_TRACE(blocks);
    limiter.reset("k");
    limiter.check("k");
    std::stop_source stop;
    std::optional<Decision> told;
    std::jthread caller;
    if (blocks) {
      caller = std::jthread([&] { told = limiter.acquire("k", 1, kForever, stop.get_token()); });
      clock_.await_waiting(1);
    } else {
      limiter.async_acquire("k", 1, kForever, to(told), stop.get_token());
    }
    clock_.advance(seconds(2));
    limiter.charge("k", 2);
    stop.request_stop();
    if (blocks) caller.join();
    clock_.advance(nanoseconds(0));
    ASSERT_TRUE(told);
    EXPECT_EQ(told->ended, Ended::kStopped);
    std::vector<Decision> parts(2);
    limiter.check_parts("k", 0, parts);
    EXPECT_LE(parts[0].reset_after, hours(3)) << "what it had reserved is returned";
    EXPECT_EQ(parts[1].remaining, 0);
  }
}

TEST_F(NoWaitTest, AStoppedCallerReturnsUnitsToTheClaimsThatCountThem) {
  Limiter bucket = limiter("token_bucket 1/1h");
  Limiter window = limiter("fixed_window 2/1s anchor=first");
  bucket.check("k");
  std::stop_source stop;
  std::jthread caller([&] {
    const Decision denied =
        acquire_all({{window, "k", 2}, {bucket, "k"}}, kForever, stop.get_token());
    EXPECT_EQ(denied.ended, Ended::kStopped);
    EXPECT_EQ(denied.delay, seconds(0));
    EXPECT_EQ(denied.retry_after, hours(1) - seconds(2));
  });
  clock_.await_waiting(1);
  clock_.advance(seconds(2));
  EXPECT_TRUE(window.check("k", 2));
  stop.request_stop();
  caller.join();
  EXPECT_EQ(window.peek("k").remaining, 0);
  EXPECT_LE(bucket.peek("k").reset_after, hours(1)) << "what it had reserved is returned";
}

// Limiters of one name: docs/limits.md, "Plans".
TEST_F(NoWaitTest, CallersOfALargerPlanDoNotWaitBehindThoseOfASmaller) {
  for (const std::string kind :
       {"fixed_window", "sliding_log", "sliding_window", "sliding_counter"}) {
    SCOPED_TRACE(kind);
    Limiter free(store_, Limit(kind + " 3/1d", kind));
    Limiter pro(store_, Limit(kind + " 1000/1d", kind));
    Limiter upgraded(store_, Limit(kind + " 3/1d", kind));
    free.check("k", 3);
    std::stop_source stop;
    std::optional<Decision> waits;
    std::optional<Decision> upgrades;
    free.async_acquire("k", 1, kForever, to(waits), stop.get_token());
    upgraded.async_acquire("k", 1, kForever, to(upgrades));
    clock_.advance(nanoseconds(0));
    EXPECT_EQ(pro.acquire("k", 1, seconds(10)).remaining, 996);
    EXPECT_FALSE(upgrades);
    upgraded.set_limit(pro.limit());
    clock_.advance(nanoseconds(0));
    EXPECT_TRUE(upgrades && upgrades->allowed) << "though another waits by the former limit";
    EXPECT_FALSE(waits);
    stop.request_stop();
    clock_.advance(nanoseconds(0));
  }
}

TEST_F(NoWaitTest, CallersOfALargerPlanDoNotWaitForThePermitsOfASmaller) {
  ConcurrencyLimiter small(store_, Limit("concurrency 1", "jobs"));
  ConcurrencyLimiter large(store_, Limit("concurrency 4", "jobs"));
  Permit held = small.try_acquire("k");
  std::vector<Permit> granted;
  const auto keep = [&](Permit permit, std::exception_ptr) {
    granted.push_back(std::move(permit));
  };
  small.async_acquire("k", kForever, keep);
  clock_.advance(nanoseconds(0));
  ASSERT_TRUE(large.try_acquire("k"));
  EXPECT_TRUE(large.acquire("k", seconds(1)));
  large.async_acquire("k", nanoseconds(0), keep);
  ASSERT_EQ(granted.size(), 1U);
  EXPECT_TRUE(granted[0]);
  held.release();
  granted[0].release();
  clock_.advance(nanoseconds(0));
  ASSERT_EQ(granted.size(), 2U) << "a release reaches the queue of each";
  EXPECT_TRUE(granted[1]);
}

TEST_F(NoWaitTest, ACostOf0IsAdmittedBeforeThoseThatWait) {
  Limiter limiter = this->limiter("fixed_window 1/1h");
  Limiter other = this->limiter("fixed_window 1/2h");
  limiter.check("k");
  std::optional<Decision> waits;
  limiter.async_acquire("k", 1, kForever, to(waits));
  EXPECT_TRUE(limiter.acquire("k", 0, seconds(1)).allowed);
  std::optional<Decision> told;
  limiter.async_acquire("k", 0, seconds(1), to(told));
  EXPECT_TRUE(told && told->allowed);
  EXPECT_TRUE(acquire_all({{limiter, "k", 0}, {other, "k"}}, seconds(1)).allowed);
  EXPECT_FALSE(waits);
  clock_.advance(std::chrono::hours(1));
  EXPECT_TRUE(waits && waits->allowed);
}

}  // namespace
}  // namespace sluice
