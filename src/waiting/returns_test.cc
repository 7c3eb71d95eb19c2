#include "waiting/returns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <vector>

#include "testing/child_process.h"
#include "testing/manual_timer_queue.h"
#include "testing/scripted_store.h"
#include "testing/wait_queues_fixture.h"
#include "waiting/ask_pauses.h"
#include "waiting/wait_queues.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using Asked = ScriptedStore::Asked;

/// A limit of permits, over a store and a clock that do as they are told.
class ReturnsTest : public testing::Test {
 protected:
  void answer_all() {
    store_->answer_all();
    timer_->run();
  }

  void SetUp() override {
    store_->answers = ScriptedStore::Answers::kWhenTold;
    binding_ = bind_to_timer(store_, limit_, LimitBinding::Kind::kPermits, timer_);
  }

  /// Whether that is how what was asked with `take` is reclaimed, of the store alone.
  static bool reclaims(const Asked& asked, const Asked& take) {
    return asked.operation == Operation::kRelease && asked.is_reclaim &&
           asked.permit == take.permit;
  }

  std::shared_ptr<ManualTimerQueue> timer_ = std::make_shared<ManualTimerQueue>();
  std::shared_ptr<ScriptedStore> store_ = std::make_shared<ScriptedStore>();
  const Limit limit_{"concurrency 1 lease=60s", "limit"};
  std::shared_ptr<LimitBinding> binding_;
};

TEST_F(ReturnsTest, ARefundIsSentOnce) {
  for (const bool loses : {false, true}) {
    store_->loses = [loses](const Request&) { return loses; };
    Request refund = binding_->bound().request("k");
    refund.operation = Operation::kRefund;
    int answers = 0;
    return_later(
        binding_, refund, [&](const Decision&) { ++answers; }, timer_);
    EXPECT_EQ(answers, 0);
    answer_all();
    EXPECT_EQ(answers, 1);
    timer_->pass(60s);
    EXPECT_EQ(store_->pending(), 0U);
  }
}

/// A permit that the store may have given.
class ReclaimTest : public ReturnsTest {
 protected:
  void reclaim() { sluice::reclaim(store_, {binding_, &binding_->bound()}, "k", 7, timer_); }

  void reclaim_too_many() {
    for (std::size_t i = 0; i <= kMostReclaimed; ++i) reclaim();
    answer_all();
  }
  void answer_from_now_on() {
    store_->says = [](const Request&) { return Decision{.retry_after = kNever}; };
    answer_all();
  }

  void SetUp() override {
    ReturnsTest::SetUp();
    store_->says = [](const Request&) { return Decision{.source = Source::kUnavailable}; };
  }

  /// What is left to be asked for is answered: until then it keeps the timer thread.
  void TearDown() override {
    answer_from_now_on();
    timer_->pass(1s);
    answer_all();
  }
};

TEST_F(ReclaimTest, IsAskedForUntilALeaseIsOver) {
  reclaim();
  answer_all();
  const auto begun = timer_->now();
  while (timer_->timers() > 0) {
    timer_->pass(10ms);
    answer_all();
  }
  EXPECT_GE(timer_->now() - begun, 58s);
  EXPECT_LE(timer_->now() - begun, 60s);
  EXPECT_EQ(store_->asked.size(), 66U);
  for (const Asked& asked : store_->asked) EXPECT_TRUE(reclaims(asked, {.permit = 7}));
}

TEST_F(ReclaimTest, IsNotAskedForOnceTheLimiterHasGone) {
  reclaim();
  answer_all();
  const std::weak_ptr<const LimitBinding> binding = binding_;
  binding_.reset();
  EXPECT_TRUE(binding.expired());
  timer_->pass(1s);
  EXPECT_EQ(store_->asked.size(), 1U);
  EXPECT_EQ(timer_->timers(), 0U);
}

TEST_F(ReclaimTest, HasABound) {
  reclaim_too_many();
  EXPECT_EQ(timer_->timers(), kMostReclaimed);
  timer_->pass(10ms);
  answer_from_now_on();
  EXPECT_EQ(timer_->timers(), 0U);
  reclaim();
  EXPECT_EQ(store_->pending(), 1U) << "there are places again";
}

TEST_F(ReclaimTest, OfAParentTakesNoPlaceInItsChild) {
  reclaim_too_many();
  EXPECT_EQ(in_child_process([&] {
              reclaim_too_many();
              return timer_->timers() == 2 * kMostReclaimed;
            }),
            0);
}

/// A caller that waits for a permit, and is answered in the store's place.
class UnansweredWaiterTest : public ReturnsTest {
 protected:
  AcquireRequest request() const {
    return {{.binding = binding_, .key = "k"}, TimerQueue::kEndOfTime, 1};
  }

  void wait() {
    WaitQueues::wait(request(), std::nullopt, stop_.get_token(),
                     [this](const AcquireOutcome& outcome) { outcomes_.push_back(outcome); });
    timer_->run();
  }

  void SetUp() override {
    ReturnsTest::SetUp();
    store_->says = [this](const Request& request) {
      return request.operation == Operation::kTake ? answer_ : Decision{.retry_after = kNever};
    };
  }

  void TearDown() override {
    stop_.request_stop();
    timer_->run();
    answer_all();
  }

  /// The request was sent, and a local state has denied it.
  Decision answer_{.source = Source::kLocal, .retry_after = 60s, .taken = kTakenUnknown};
  std::stop_source stop_;
  std::vector<AcquireOutcome> outcomes_;
};

TEST_F(UnansweredWaiterTest, ReclaimsThePermitAndAsksForAnother) {
  wait();
  answer_all();
  ASSERT_EQ(store_->asked.size(), 2U) << "it is not woken to ask at once";
  EXPECT_TRUE(reclaims(store_->asked[1], store_->asked[0]));
  answer_ = {.source = Source::kStore, .retry_after = 60s};
  answer_all();
  ASSERT_EQ(store_->asked.size(), 2U) << "nor when the permit is reclaimed";
  timer_->pass(5ms);
  ASSERT_EQ(store_->asked.size(), 3U);
  EXPECT_EQ(store_->asked[2].operation, Operation::kTake);
  EXPECT_NE(store_->asked[2].permit, store_->asked[0].permit);
  answer_all();
  answer_ = {.allowed = true};
  binding_->queues()->released("k");
  timer_->run();
  ASSERT_EQ(store_->asked.size(), 4U) << "what the store denied, it did not give";
  EXPECT_EQ(store_->asked[3].permit, store_->asked[2].permit);
  answer_all();
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_TRUE(outcomes_[0].is_granted());
  EXPECT_EQ(outcomes_[0].permit, store_->asked[3].permit);
}

TEST_F(UnansweredWaiterTest, AsksForTheSamePermitIfTheStoreCannotHaveGivenIt) {
  answer_.taken = 0;
  wait();
  for (int i = 0; i < 3; ++i) {
    answer_all();
    timer_->pass(AskPauses::kMost);
  }
  ASSERT_EQ(store_->asked.size(), 4U);
  for (const Asked& asked : store_->asked) EXPECT_EQ(asked, store_->asked[0]);
}

TEST_F(UnansweredWaiterTest, HasAnotherNameForACallerThatAsksBeforeItWaits) {
  store_->answers = ScriptedStore::Answers::kAtOnce;
  WaitQueues::acquire(request(), stop_.get_token(), [](const AcquireOutcome&) {});
  timer_->run();
  ASSERT_EQ(store_->asked.size(), 4U);
  EXPECT_TRUE(reclaims(store_->asked[1], store_->asked[0]));
  EXPECT_EQ(store_->asked[2].operation, Operation::kTake);
  EXPECT_NE(store_->asked[2].permit, store_->asked[0].permit);
  EXPECT_TRUE(reclaims(store_->asked[3], store_->asked[2]));
}

TEST_F(UnansweredWaiterTest, HasAnotherNameForACallerThatBlocks) {
  store_->answers = ScriptedStore::Answers::kAtOnce;
  store_->on_the_way = [this] { answer_ = {.allowed = true}; };  // When it asks again.
  binding_ =
      bind_to_timer(store_, Limit(limit_.expression(), "other"), LimitBinding::Kind::kPermits,
                    std::make_shared<TimerThread>(timer_->now()));
  const AcquireOutcome outcome = WaitQueues::acquire_blocking(request(), stop_.get_token());
  EXPECT_TRUE(outcome.is_granted());
  std::vector<Asked> takes = store_->asked;
  std::erase_if(takes, [](const Asked& asked) { return asked.operation != Operation::kTake; });
  ASSERT_EQ(takes.size(), 2U);
  EXPECT_NE(takes[1].permit, takes[0].permit);
  EXPECT_EQ(takes[1].permit, outcome.permit);
}

}  // namespace
}  // namespace sluice
