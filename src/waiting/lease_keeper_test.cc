#include "waiting/lease_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "testing/manual_timer_queue.h"
#include "testing/scripted_store.h"
#include "testing/wait_queues_fixture.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

/// Permits with a lease of 60 s, over a store and a clock that do as they are told.
class LeaseKeeperTest : public testing::Test {
 protected:
  /// The permit was asked for `ago`.
  std::shared_ptr<Lease> hold(PermitId id, Source source = Source::kStore,
                              std::chrono::nanoseconds ago = 0ns) {
    leases_.push_back(keeper_->hold("k", {.decision = {.allowed = true, .source = source},
                                          .permit = id,
                                          .asked_at = timer_->now() - ago,
                                          .claims = {{.bound = &binding_->bound()}}}));
    return leases_.back();
  }

  /// The permits for which this was asked since the last call.
  std::vector<PermitId> asked(Operation operation) {
    std::vector<PermitId> permits;
    for (const auto& asked : store_->asked) {
      if (asked.operation == operation) permits.push_back(asked.permit);
    }
    store_->asked.clear();
    return permits;
  }

  void says(const Decision& decision) {
    store_->says = [decision](const Request&) { return decision; };
  }
  void answer_later() { store_->answers = ScriptedStore::Answers::kWhenTold; }
  void answer_all() {
    store_->answer_all();
    timer_->run();
  }
  void answer_at_once() { store_->answers = ScriptedStore::Answers::kAtOnce; }

  void SetUp() override { says({.allowed = true}); }

  /// As their Permits would.
  void TearDown() override {
    for (const auto& lease : leases_) lease->release();
    answer_all();
  }

  std::shared_ptr<ManualTimerQueue> timer_ = std::make_shared<ManualTimerQueue>();
  std::shared_ptr<ScriptedStore> store_ = std::make_shared<ScriptedStore>();
  std::shared_ptr<LimitBinding> binding_ = bind_to_timer(
      store_, Limit("concurrency 4 lease=60s", "jobs"), LimitBinding::Kind::kPermits, timer_);
  std::vector<std::shared_ptr<Lease>> leases_;
  std::shared_ptr<LeaseKeeper> keeper_ = std::make_shared<LeaseKeeper>(binding_);
};

TEST_F(LeaseKeeperTest, RenewsEachThirdOfALease) {
  const auto permit = hold(7);
  timer_->pass(20s - 1ns);
  EXPECT_THAT(asked(Operation::kRenew), IsEmpty());
  timer_->pass(1ns);
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(7));
  timer_->pass(200s);
  EXPECT_EQ(asked(Operation::kRenew).size(), 10U);
  EXPECT_TRUE(permit->held());
  permit->release();
}

TEST_F(LeaseKeeperTest, ReleasesOnceAndNeverWhatIsIgnored) {
  const auto released = hold(7);
  const auto ignored = hold(8);
  released->release();
  ignored->ignore();
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(7));
  for (const auto& permit : {released, ignored}) {
    EXPECT_FALSE(permit->held());
    permit->release();
    permit->ignore();
  }
  timer_->pass(100s);
  EXPECT_THAT(store_->asked, IsEmpty());
  EXPECT_EQ(timer_->timers(), 0U) << "none is left to renew";
}

TEST_F(LeaseKeeperTest, ReleasesAgainUntilTheStoreAnswers) {
  answer_later();
  keeper_ = std::make_shared<LeaseKeeper>(binding_);
  const auto permit = hold(7);
  const auto local = hold(8, Source::kLocal);
  says({.source = Source::kUnavailable});
  permit->release();
  local->release();
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(7, 8));
  answer_all();
  timer_->pass(10ms);
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(7));
  answer_all();
  timer_->pass(20ms);
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(7));
  says({.allowed = true});
  answer_all();
  timer_->pass(100s);
  EXPECT_THAT(store_->asked, IsEmpty());
}

TEST_F(LeaseKeeperTest, TellsThatItHasExpired) {
  const auto permit = hold(7);
  int told = 0;
  permit->on_expiry([&] { told += 100; });
  permit->on_expiry([&] { ++told; });
  says({.allowed = false, .retry_after = kNever});
  timer_->pass(20s);
  EXPECT_EQ(told, 1) << "only the last one given counts";
  EXPECT_FALSE(permit->held());
  timer_->pass(100s);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(asked(Operation::kRenew).size(), 1U);
  permit->on_expiry([&] { told += 10; });
  EXPECT_EQ(told, 11) << "it has expired already";
  permit->release();
  EXPECT_THAT(store_->asked, IsEmpty()) << "it is not held";
}

// However long the function takes that it calls.
TEST_F(LeaseKeeperTest, RenewsOthersBeforeItTellsOfAnExpiry) {
  const auto expires = hold(1);
  answer_later();
  timer_->pass(40s);
  const auto due = hold(2);
  asked(Operation::kRenew);
  std::vector<PermitId> renewed;
  expires->on_expiry([&] { renewed = asked(Operation::kRenew); });
  timer_->pass(20s);
  EXPECT_THAT(renewed, ElementsAre(2));
}

TEST_F(LeaseKeeperTest, IsNotToldOfWhatItLetGoOf) {
  const auto released = hold(1);
  const auto ignored = hold(2);
  int told = 0;
  for (const auto& permit : {released, ignored}) permit->on_expiry([&] { ++told; });
  answer_later();
  timer_->pass(20s);
  answer_at_once();
  says({.allowed = false, .retry_after = kNever});
  released->release();
  ignored->ignore();
  ignored->on_expiry([&] { ++told; });
  answer_all();
  EXPECT_EQ(told, 0);
}

TEST_F(LeaseKeeperTest, TriesAgainWhatIsNotAnsweredUntilTheLeaseIsOver) {
  const auto permit = hold(7);
  int told = 0;
  permit->on_expiry([&] { ++told; });
  says({.allowed = true, .source = Source::kLocal});
  timer_->pass(30s);
  EXPECT_EQ(asked(Operation::kRenew).size(), 11U);
  EXPECT_TRUE(permit->held());
  timer_->pass(30s - 1ns);
  EXPECT_TRUE(permit->held());
  timer_->pass(1ns);
  EXPECT_FALSE(permit->held());
  EXPECT_EQ(told, 1);
  asked(Operation::kRenew);
  timer_->pass(100s);
  EXPECT_THAT(asked(Operation::kRenew), IsEmpty());
}

TEST_F(LeaseKeeperTest, ALeaseCountsFromWhenItsRenewalWasSent) {
  const auto permit = hold(7);
  answer_later();
  timer_->pass(20s);
  timer_->pass(5s);  // The store takes its time.
  answer_all();
  answer_at_once();
  says({.source = Source::kUnavailable});
  timer_->pass(55s - 1ns);
  EXPECT_TRUE(permit->held());
  timer_->pass(1ns);
  EXPECT_FALSE(permit->held());
}

TEST_F(LeaseKeeperTest, ExpiresWhileItsRenewalIsUnderWay) {
  const auto first = hold(1);
  timer_->pass(1s);
  const auto second = hold(2);
  std::vector<PermitId> told;
  first->on_expiry([&] { told.push_back(1); });
  second->on_expiry([&] { told.push_back(2); });
  answer_later();
  timer_->pass(59s - 1ns);
  EXPECT_EQ(store_->pending(), 2U);
  EXPECT_THAT(told, IsEmpty());
  timer_->pass(1ns);
  EXPECT_THAT(told, ElementsAre(1)) << "it does not wait for the store's deadline";
  EXPECT_FALSE(first->held());
  EXPECT_TRUE(second->held());
  timer_->pass(1s);
  EXPECT_THAT(told, ElementsAre(1, 2));
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(1, 2)) << "once each";

  says({.source = Source::kUnavailable});
  store_->answer();
  says({.allowed = true});
  answer_all();
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(2)) << "it was renewed, and has no holder";
  answer_at_once();
  timer_->pass(100s);
  EXPECT_FALSE(second->held());
  EXPECT_THAT(told, ElementsAre(1, 2));
  EXPECT_THAT(store_->asked, IsEmpty());
}

TEST_F(LeaseKeeperTest, AnExpiredPermitIsReleasedSinceARenewalMayComeLate) {
  const auto permit = hold(1);
  answer_later();
  timer_->pass(60s);
  EXPECT_FALSE(permit->held());
  asked(Operation::kRenew);
  permit->release();
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(1));
  answer_all();
  EXPECT_THAT(store_->asked, IsEmpty());
}

TEST_F(LeaseKeeperTest, MayBeReleasedWhileItIsRenewed) {
  const auto first = hold(1);
  const auto second = hold(2);
  const auto third = hold(3);
  answer_later();
  timer_->pass(20s);
  second->release();
  asked(Operation::kRenew);
  answer_all();
  answer_at_once();
  timer_->pass(20s);
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(1, 3));
  EXPECT_TRUE(first->held());
  EXPECT_TRUE(third->held());
}

TEST_F(LeaseKeeperTest, AReleaseWaitsForTheCallbackThatIsRunning) {
  const auto permit = hold(7);
  std::promise<void> begun;
  std::promise<void> releasing;
  std::atomic<bool> has_ended = false;
  permit->on_expiry([&] {
    begun.set_value();
    releasing.get_future().wait();
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    has_ended = true;
  });
  says({.allowed = false, .retry_after = kNever});
  std::jthread time([&] { timer_->pass(20s); });
  begun.get_future().wait();
  releasing.set_value();
  permit->release();
  EXPECT_TRUE(has_ended);
}

// Though it had expired when the other thread began to set its callback.
TEST_F(LeaseKeeperTest, ACallbackThatComesDuringTheReleaseIsNotCalled) {
  const auto permit = hold(7);
  says({.allowed = false, .retry_after = kNever});
  timer_->pass(20s);
  bool is_told = false;
  std::jthread other;
  permit->on_expiry([&] {
    other = std::jthread([&] { permit->on_expiry([&] { is_told = true; }); });
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    permit->release();
  });
  other.join();
  EXPECT_FALSE(is_told);
}

TEST_F(LeaseKeeperTest, OneThatTheStoreDidNotGiveIsRenewedByItsGiver) {
  const auto local = hold(1, Source::kLocal);
  const auto policy = hold(2, Source::kPolicy);
  store_->says = [](const Request& request) {
    return Decision{.allowed = true, .source = request.giver};
  };
  timer_->pass(200s);
  EXPECT_TRUE(local->held());
  EXPECT_TRUE(policy->held());
  store_->asked.clear();
  local->release();
  ASSERT_EQ(store_->asked.size(), 1U);
  EXPECT_EQ(store_->asked[0].giver, Source::kLocal);
  policy->release();
  EXPECT_EQ(store_->asked[1].giver, Source::kPolicy);
}

TEST_F(LeaseKeeperTest, OneThatAFullStoreGaveStays) {
  const auto permit = hold(7, Source::kFull);
  says({.allowed = false, .retry_after = kNever});
  timer_->pass(300s);
  EXPECT_TRUE(permit->held());
}

TEST_F(LeaseKeeperTest, AShorterLeaseIsRenewedEarlier) {
  const auto longer = hold(1);
  binding_->set_limit(Limit("concurrency 4 lease=3s", "jobs"));
  const auto shorter = hold(2);
  timer_->pass(1s);
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(2));
  timer_->pass(19s);
  EXPECT_EQ(asked(Operation::kRenew).size(), 20U);
  longer->release();
  shorter->release();
}

// They keep each other until then.
TEST_F(LeaseKeeperTest, EndsWithItsPermits) {
  const std::weak_ptr<LeaseKeeper> keeper = keeper_;
  for (const bool releases : {true, false}) {
    auto permit = hold(1);
    releases ? permit->release() : permit->ignore();
  }
  auto expired = hold(2);
  says({.allowed = false, .retry_after = kNever});
  keeper_.reset();
  timer_->pass(20s);
  EXPECT_FALSE(keeper.expired());
  expired.reset();
  leases_.clear();
  EXPECT_TRUE(keeper.expired());
}

/// Cancels nothing, as if each task had begun to run when it is cancelled.
class TooLateTimerQueue final : public TimerQueue {
 public:
  explicit TooLateTimerQueue(std::shared_ptr<TimerQueue> timer) : timer_(std::move(timer)) {}
  TimePoint now() const override { return timer_->now(); }
  void cancel(const Timer&) override {}

 private:
  Timer add(Timer timer, Task task) override { return timer_->at(timer.when, std::move(task)); }

  const std::shared_ptr<TimerQueue> timer_;
};

TEST_F(LeaseKeeperTest, ATimerThatIsReplacedTooLateLeavesNoFurtherOnes) {
  binding_ =
      bind_to_timer(store_, Limit("concurrency 4 lease=60s", "others"),
                    LimitBinding::Kind::kPermits, std::make_shared<TooLateTimerQueue>(timer_));
  keeper_ = std::make_shared<LeaseKeeper>(binding_);
  const auto later = hold(1);
  const auto earlier = hold(2, Source::kStore, 1s);
  EXPECT_EQ(timer_->timers(), 2U);
  timer_->pass(100s);
  EXPECT_EQ(timer_->timers(), 1U);
  EXPECT_TRUE(later->held());
  EXPECT_TRUE(earlier->held());
}

// As a funnel does, which has a keeper of its own for each call.
TEST_F(LeaseKeeperTest, LeavesNoTimerBehind) {
  hold(1)->release();
  leases_.clear();
  keeper_.reset();
  EXPECT_EQ(timer_->timers(), 0U);
}

}  // namespace
}  // namespace sluice
