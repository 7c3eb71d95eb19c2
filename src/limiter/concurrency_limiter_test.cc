#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fallback/fallback_store.h"
#include "sluice/limit.h"
#include "sluice/manual_clock.h"
#include "sluice/permit.h"
#include "sluice/store.h"
#include "testing/scripted_store.h"
#include "testing/waiting_callers.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::ElementsAreArray;

/// Permits of a memory store, by the real clock.
class ConcurrencyLimiterTest : public testing::Test {
 protected:
  void await_waiting(std::size_t count) { sluice::await_waiting(*store_, limit_, count); }

  std::shared_ptr<Store> store_ = open_store("memory:");
  Limit limit_{"concurrency 1 lease=1h", "jobs"};
  ConcurrencyLimiter jobs_{store_, limit_};
};

TEST_F(ConcurrencyLimiterTest, GivesAsManyAsThereAre) {
  ConcurrencyLimiter two(store_, Limit("concurrency 2 lease=1h", "two"));
  Permit first = two.try_acquire("k");
  EXPECT_TRUE(first);
  EXPECT_EQ(first.decision().remaining, 1);
  const Permit second = two.try_acquire("k");
  EXPECT_TRUE(second.held());
  const Permit third = two.try_acquire("k");
  EXPECT_FALSE(third);
  EXPECT_FALSE(third.held());
  EXPECT_GT(third.decision().retry_after, minutes(59));
  EXPECT_LE(third.decision().retry_after, hours(1));
  EXPECT_TRUE(two.try_acquire("other"));
  EXPECT_EQ(two.peek("k").remaining, 0);
  first.release();
  EXPECT_FALSE(first.held());
  EXPECT_TRUE(first) << "it was granted";
  EXPECT_EQ(two.peek("k").remaining, 1);
}

TEST_F(ConcurrencyLimiterTest, ReturnsWhatGoes) {
  { const Permit permit = jobs_.try_acquire("k"); }
  Permit permit = jobs_.try_acquire("k");
  EXPECT_TRUE(permit.held());
  Permit moved = std::move(permit);
  EXPECT_TRUE(moved.held());
  moved = Permit();
  EXPECT_EQ(jobs_.peek("k").remaining, 1);
  jobs_.try_acquire("k").ignore();
  EXPECT_EQ(jobs_.peek("k").remaining, 0) << "it counts until its lease ends";
}

TEST_F(ConcurrencyLimiterTest, RefusesOtherLimitsAndANegativePatience) {
  EXPECT_THROW(ConcurrencyLimiter(store_, Limit("fixed_window 1/1s")), InvalidLimit);
  EXPECT_THROW(jobs_.acquire("k", nanoseconds(-1)), std::invalid_argument);
  std::exception_ptr error;
  jobs_.async_acquire("k", nanoseconds(-1),
                      [&](Permit, std::exception_ptr thrown) { error = std::move(thrown); });
  EXPECT_THROW(std::rethrow_exception(error), std::invalid_argument);
}

TEST_F(ConcurrencyLimiterTest, ServesThreadsInOrder) {
  constexpr std::size_t kThreads = 20;
  Permit held = jobs_.try_acquire("k");
  std::mutex mutex;
  std::vector<std::size_t> order;
  std::vector<std::size_t> expected;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Permit permit = jobs_.acquire("k", hours(1));
      const std::lock_guard lock(mutex);
      if (permit) order.push_back(i);
    });
    expected.push_back(i);
    await_waiting(i + 1);
  }
  const Permit overtaking = jobs_.try_acquire("k");
  EXPECT_FALSE(overtaking);
  EXPECT_GT(overtaking.decision().retry_after, nanoseconds(0));
  EXPECT_TRUE(jobs_.try_acquire("other"));
  held.release();
  threads.clear();
  EXPECT_THAT(order, ElementsAreArray(expected));
}

TEST_F(ConcurrencyLimiterTest, ACallerThatWouldOvertakeIsToldWhenTheLastLeaseEnds) {
  ConcurrencyLimiter two(store_, Limit("concurrency 2 lease=1h", "two"));
  const Permit first = two.try_acquire("k");
  two.set_limit(Limit("concurrency 2 lease=2h", "two"));
  const Permit second = two.try_acquire("k");
  EXPECT_LE(two.try_acquire("k").decision().retry_after, hours(1));
  std::stop_source stop;
  std::promise<void> ended;
  two.async_acquire(
      "k", hours(1), [&](Permit, std::exception_ptr) { ended.set_value(); }, stop.get_token());
  EXPECT_GT(two.try_acquire("k").decision().retry_after, hours(1));
  stop.request_stop();
  ended.get_future().wait();
}

TEST_F(ConcurrencyLimiterTest, CallsBackAtOnceWhereItNeedNotWait) {
  Permit given;
  const auto take = [&](Permit permit, std::exception_ptr) { given = std::move(permit); };
  jobs_.async_acquire("k", hours(1), take);
  EXPECT_TRUE(given.held());
  Permit denied;
  jobs_.async_acquire("k", nanoseconds(0),
                      [&](Permit permit, std::exception_ptr) { denied = std::move(permit); });
  EXPECT_FALSE(denied);
  EXPECT_EQ(denied.decision().limit, 1);
}

TEST_F(ConcurrencyLimiterTest, ThoseThatWaitOutliveTheLimiter) {
  auto jobs = std::make_unique<ConcurrencyLimiter>(store_, limit_);
  Permit held = jobs->try_acquire("k");
  std::promise<Permit> later;
  jobs->async_acquire("k", hours(1), [&](Permit permit, std::exception_ptr) {
    later.set_value(std::move(permit));
  });
  jobs.reset();
  EXPECT_TRUE(held.held());
  held.release();
  EXPECT_TRUE(later.get_future().get().held());
}

// A release to a store on another machine runs on other threads.
TEST_F(ConcurrencyLimiterTest, PermitsAndTheirLimiterMayGoAtTheSameTime) {
  const auto far = std::make_shared<ScriptedStore>();
  far->answers = ScriptedStore::Answers::kOnAnotherThread;
  for (const std::shared_ptr<Store>& store : {store_, std::shared_ptr<Store>(far)}) {
    ConcurrencyLimiter others(store, limit_);
    for (int i = 0; i < 50; ++i) {
      auto jobs = std::make_unique<ConcurrencyLimiter>(store, limit_);
      Permit first = jobs->try_acquire("a" + std::to_string(i));
      Permit second = jobs->try_acquire("b" + std::to_string(i));
      ASSERT_TRUE(first && second);
      std::vector<std::jthread> threads;
      threads.emplace_back([last = std::move(first)] {});
      threads.emplace_back([last = std::move(second)] {});
      jobs.reset();
    }
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(others.acquire("a" + std::to_string(i), hours(1)).held());
      EXPECT_TRUE(others.acquire("b" + std::to_string(i), hours(1)).held());
    }
  }
}

/// One caller holds the permit, and another waits for it.
class WaitingForAPermitTest : public ConcurrencyLimiterTest {
 protected:
  WaitingForAPermitTest() {
    jobs_.async_acquire("k", hours(1), [&](Permit permit, std::exception_ptr) {
      later_.set_value(std::move(permit));
    });
    await_waiting(1);
  }

  void expect_granted() {
    auto granted = later_.get_future();
    EXPECT_EQ(granted.wait_for(seconds(10)), std::future_status::ready);
    held_.release();  // It is granted now, if it has not been before.
    EXPECT_TRUE(granted.get());
  }

  Permit held_ = jobs_.try_acquire("k");
  std::promise<Permit> later_;
};

TEST_F(WaitingForAPermitTest, AResetLetsTheFirstGoAhead) {
  jobs_.reset("k");
  expect_granted();
}

TEST_F(WaitingForAPermitTest, AHigherLimitLetsTheFirstGoAhead) {
  jobs_.set_limit(Limit("concurrency 2 lease=1h", "jobs"));
  EXPECT_EQ(jobs_.limit().expression(), "concurrency 2 lease=1h");
  EXPECT_TRUE(held_.held());
  expect_granted();
}

TEST_F(WaitingForAPermitTest, ABlockDeniesIt) {
  jobs_.block("k", hours(2));
  auto denied = later_.get_future();
  ASSERT_EQ(denied.wait_for(seconds(10)), std::future_status::ready);
  EXPECT_GT(denied.get().decision().retry_after, hours(1));
  EXPECT_TRUE(held_.held());
}

TEST_F(WaitingForAPermitTest, ACallerThatDoesNotWaitIsToldTheSameWithoutBlocking) {
  const Permit blocking = jobs_.acquire("k", nanoseconds(0));
  std::promise<Permit> given;
  jobs_.async_acquire("k", nanoseconds(0), [&](Permit permit, std::exception_ptr) {
    given.set_value(std::move(permit));
  });
  const Permit later = given.get_future().get();
  for (const Permit* permit : {&blocking, &later}) {
    EXPECT_FALSE(*permit);
    EXPECT_EQ(permit->decision().ended, Ended::kAnswered);
    EXPECT_EQ(permit->decision().retry_after, permit->decision().reset_after);
  }
  held_.release();
  expect_granted();
}

TEST_F(WaitingForAPermitTest, ACallerThatIsStoppedBeforeItComesIsToldSo) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(jobs_.acquire("k", nanoseconds(0), stop.get_token()).decision().ended, Ended::kStopped);
  std::promise<Permit> given;
  jobs_.async_acquire(
      "k", nanoseconds(0),
      [&](Permit permit, std::exception_ptr) { given.set_value(std::move(permit)); },
      stop.get_token());
  EXPECT_EQ(given.get_future().get().decision().ended, Ended::kStopped);
  held_.release();
  expect_granted();
}

TEST(Permit, MayBeDestroyedByTheCallbackThatIsCalledAtOnce) {
  ManualClock clock;
  const Limit limit("concurrency 1 lease=3s");
  ConcurrencyLimiter jobs(open_store("memory:", clock), limit);
  auto permit = std::make_unique<Permit>(jobs.try_acquire("k"));
  jobs.reset("k");
  clock.advance(seconds(1));
  EXPECT_FALSE(permit->held());
  permit->on_expiry([&] { permit.reset(); });
  EXPECT_EQ(permit, nullptr);
}

TEST(Permit, MayBeOwnedByItsCallback) {
  ManualClock clock;
  ConcurrencyLimiter jobs(open_store("memory:", clock), Limit("concurrency 2 lease=3s"));
  for (void (Permit::*const settle)() : {&Permit::release, &Permit::ignore}) {
    auto owner = std::make_shared<Permit>(jobs.try_acquire("k"));
    const std::weak_ptr<Permit> alive = owner;
    Permit* const permit = owner.get();
    permit->on_expiry([last = std::move(owner)] {});
    EXPECT_FALSE(alive.expired());
    (permit->*settle)();
    EXPECT_TRUE(alive.expired());
  }
  EXPECT_EQ(jobs.peek("k").remaining, 1) << "one was ignored";
}

TEST_F(ConcurrencyLimiterTest, BacksOffFromWhatOthersShare) {
  const auto store = std::make_shared<ScriptedStore>();
  store->says = [](const Request&) { return Decision{.allowed = true}; };
  store->answers = ScriptedStore::Answers::kWhenTold;
  ConcurrencyLimiter shared(store, limit_);
  const auto queues = store->open_space(limit_.definition())->attachment<WaitQueues>();
  ReleaseFairness& fairness = queues->fairness();
  const auto later = steady_clock::now() + hours(1);
  for (int i = 0; i < ReleaseFairness::kLeastGrants; ++i) {
    EXPECT_LT(fairness.backs_off_until("k"), later);
    EXPECT_TRUE(shared.try_acquire("k"));
    store->answer();
    fairness.released("k", later);
  }
  EXPECT_GT(fairness.backs_off_until("k"), later);
}

/// A limiter over a FallbackStore whose inner store perhaps carries out requests, and does not
/// answer.
class UnansweredPermitTest : public testing::Test {
 protected:
  Permit acquire(OnFailure policy) {
    FallbackOptions options;
    options.on_failure = policy;
    store_->asked.clear();
    ConcurrencyLimiter jobs(std::make_shared<FallbackStore>(store_, options),
                            Limit("concurrency 4 lease=60s", "jobs"));
    return jobs.try_acquire("k");
  }

  void expect_reclaimed() {
    ASSERT_EQ(store_->asked.size(), 2U);
    EXPECT_EQ(store_->asked[1].operation, Operation::kRelease);
    EXPECT_TRUE(store_->asked[1].is_reclaim);
    EXPECT_EQ(store_->asked[1].permit, store_->asked[0].permit);
  }

  std::shared_ptr<ScriptedStore> store_ = std::make_shared<ScriptedStore>();
};

TEST_F(UnansweredPermitTest, IsReclaimedUnderEveryPolicy) {
  // The release arrives: it would be sent again while the test reads what was asked.
  store_->says = [](const Request& asked) {
    return asked.operation == Operation::kTake
               ? std::optional(Decision{.source = Source::kUnavailable, .taken = kTakenUnknown})
               : std::nullopt;
  };
  for (const OnFailure policy : {OnFailure::kLocal, OnFailure::kAllow, OnFailure::kDeny}) {
    Permit permit = acquire(policy);
    EXPECT_EQ(permit.held(), policy != OnFailure::kDeny);
    EXPECT_EQ(permit.decision().taken, 0);
    expect_reclaimed();
    permit.release();
    EXPECT_EQ(store_->asked.size(), 2U) << "what is held is not the store's";
  }
  EXPECT_THROW(acquire(OnFailure::kRaise), StoreError);
  expect_reclaimed();
}

TEST_F(UnansweredPermitTest, IsNotReclaimedUnlessTheStoreMayHaveGivenIt) {
  store_->lose_all();
  for (const OnFailure policy : {OnFailure::kLocal, OnFailure::kAllow, OnFailure::kDeny}) {
    EXPECT_EQ(acquire(policy).held(), policy != OnFailure::kDeny);
    EXPECT_EQ(store_->asked.size(), 1U);
  }
  EXPECT_THROW(acquire(OnFailure::kRaise), StoreError);
  EXPECT_EQ(store_->asked.size(), 1U);
}

}  // namespace
}  // namespace sluice
