#include "limiter/permit_keeper.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "limiter/answering_store.h"
#include "limiter/manual_timekeeper.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

/// May have no memory for another entry.
class NarrowTimekeeper final : public ManualTimekeeper {
 public:
  Timer at(TimePoint when, Task task) override {
    if (is_full) throw std::bad_alloc();
    return ManualTimekeeper::at(when, std::move(task));
  }

  bool is_full = false;
};

/// Permits with a lease of 60 s, over a store and a clock that do as they are told.
class PermitKeeperTest : public testing::Test {
 protected:
  struct Drop {
    void operator()(HeldPermit* permit) const {
      permit->release();
      permit->drop();
    }
  };
  using Held = std::unique_ptr<HeldPermit, Drop>;

  Held hold(PermitId id, Source source = Source::kStore) {
    Outcome granted{.decision = {.allowed = true, .source = source}, .permit = id};
    granted.asked = clock_->now();
    granted.bound = &keeper_->slot().bound();
    return Held(keeper_->hold("k", granted));
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

  std::shared_ptr<NarrowTimekeeper> clock_ = std::make_shared<NarrowTimekeeper>();
  std::shared_ptr<AnsweringStore> store_ = std::make_shared<AnsweringStore>();
  std::shared_ptr<PermitKeeper> keeper_ =
      std::make_shared<PermitKeeper>(store_, Limit("concurrency 4 lease=60s", "jobs"), clock_);
};

TEST_F(PermitKeeperTest, RenewsEachThirdOfALease) {
  const auto permit = hold(7);
  clock_->pass(seconds(20) - nanoseconds(1));
  EXPECT_THAT(asked(Operation::kRenew), IsEmpty());
  clock_->pass(nanoseconds(1));
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(7));
  clock_->pass(seconds(200));
  EXPECT_EQ(asked(Operation::kRenew).size(), 10U);
  EXPECT_TRUE(permit->held());
  permit->release();
}

TEST_F(PermitKeeperTest, RenewsTogetherWhatIsDueTogether) {
  const auto first = hold(1);
  const auto second = hold(2);
  clock_->pass(seconds(1));
  const auto third = hold(3);
  store_->late = true;
  clock_->pass(seconds(19));
  EXPECT_EQ(store_->under_way(), 1U);
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(1, 2));
  clock_->pass(seconds(1));
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(3));
  store_->answer();
  store_->answer();
  clock_->run();
  store_->late = false;
  clock_->pass(seconds(40));
  for (const auto* permit : {&first, &second, &third}) EXPECT_TRUE((*permit)->held());
}

TEST_F(PermitKeeperTest, ReleasesOnce) {
  const auto permit = hold(7);
  permit->release();
  EXPECT_FALSE(permit->held());
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(7));
  permit->release();
  permit->ignore();
  clock_->pass(seconds(100));
  EXPECT_THAT(store_->asked, IsEmpty());
  EXPECT_EQ(clock_->timers(), 0U) << "nobody is left to look after";
}

TEST_F(PermitKeeperTest, OfManyStrikesOutAnyOne) {
  std::vector<Held> permits;
  for (PermitId id = 1; id <= 5; ++id) permits.push_back(hold(id));
  for (const std::size_t gone : {2U, 0U, 4U}) permits[gone]->release();
  asked(Operation::kRelease);
  clock_->pass(seconds(20));
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(2, 4));
  permits[1]->release();
  permits[3]->release();
}

TEST_F(PermitKeeperTest, WhatIsIgnoredIsLeftToItsLease) {
  const auto permit = hold(7);
  permit->ignore();
  EXPECT_FALSE(permit->held());
  clock_->pass(seconds(100));
  permit->release();
  EXPECT_THAT(store_->asked, IsEmpty());
}

TEST_F(PermitKeeperTest, TellsThatItHasLapsed) {
  const auto permit = hold(7);
  int told = 0;
  permit->on_lapse([&] { told += 100; });
  permit->on_lapse([&] { ++told; });
  says({.allowed = false, .retry_after = kNever});
  clock_->pass(seconds(20));
  EXPECT_EQ(told, 1) << "only the last one given counts";
  EXPECT_FALSE(permit->held());
  clock_->pass(seconds(100));
  EXPECT_EQ(told, 1);
  EXPECT_EQ(asked(Operation::kRenew).size(), 1U);
  permit->on_lapse([&] { told += 10; });
  EXPECT_EQ(told, 11) << "it has lapsed already";
  permit->release();
  EXPECT_THAT(store_->asked, IsEmpty()) << "it is not held";
}

TEST_F(PermitKeeperTest, IsNotToldOfWhatItLetGoOf) {
  const auto released = hold(1);
  const auto ignored = hold(2);
  int told = 0;
  for (const auto* permit : {&released, &ignored}) (*permit)->on_lapse([&] { ++told; });
  store_->late = true;
  clock_->pass(seconds(20));
  store_->late = false;
  says({.allowed = false, .retry_after = kNever});
  released->release();
  ignored->ignore();
  ignored->on_lapse([&] { ++told; });
  store_->answer();
  clock_->run();
  EXPECT_EQ(told, 0);
}

TEST_F(PermitKeeperTest, MayBeReleasedWhenItIsTold) {
  const auto permit = hold(7);
  permit->on_lapse([&] { permit->release(); });
  says({.allowed = false, .retry_after = kNever});
  clock_->pass(seconds(20));
  EXPECT_THAT(asked(Operation::kRelease), IsEmpty());
}

TEST_F(PermitKeeperTest, TriesAgainWhatIsNotAnsweredUntilTheLeaseIsOver) {
  const auto permit = hold(7);
  int told = 0;
  permit->on_lapse([&] { ++told; });
  says({.allowed = true, .source = Source::kLocal});
  clock_->pass(seconds(30));
  EXPECT_GE(asked(Operation::kRenew).size(), 10U);
  EXPECT_TRUE(permit->held());
  clock_->pass(seconds(30) - nanoseconds(1));
  EXPECT_TRUE(permit->held());
  clock_->pass(nanoseconds(1));
  EXPECT_FALSE(permit->held());
  EXPECT_EQ(told, 1);
  asked(Operation::kRenew);
  clock_->pass(seconds(100));
  EXPECT_THAT(asked(Operation::kRenew), IsEmpty());
}

TEST_F(PermitKeeperTest, GoesOnWhenTheStoreIsBack) {
  const auto permit = hold(7);
  says({.source = Source::kUnanswered});
  clock_->pass(seconds(50));
  says({.allowed = true});
  clock_->pass(seconds(100));
  EXPECT_TRUE(permit->held());
  permit->release();
}

TEST_F(PermitKeeperTest, ALeaseCountsFromWhenItsRenewalWasSent) {
  const auto permit = hold(7);
  store_->late = true;
  clock_->pass(seconds(20));
  clock_->pass(seconds(5));  // The store takes its time.
  store_->answer();
  clock_->run();
  store_->late = false;
  says({.source = Source::kUnanswered});
  clock_->pass(seconds(55) - nanoseconds(1));
  EXPECT_TRUE(permit->held());
  clock_->pass(nanoseconds(1));
  EXPECT_FALSE(permit->held());
}

TEST_F(PermitKeeperTest, LapsesWhileItsRenewalIsUnderWay) {
  const auto first = hold(1);
  clock_->pass(seconds(1));
  const auto second = hold(2);
  std::vector<PermitId> told;
  first->on_lapse([&] { told.push_back(1); });
  second->on_lapse([&] { told.push_back(2); });
  store_->late = true;
  clock_->pass(seconds(59) - nanoseconds(1));
  EXPECT_EQ(store_->under_way(), 2U);
  EXPECT_THAT(told, IsEmpty());
  clock_->pass(nanoseconds(1));
  EXPECT_THAT(told, ElementsAre(1)) << "it does not wait for the store's deadline";
  EXPECT_FALSE(first->held());
  EXPECT_TRUE(second->held());
  clock_->pass(seconds(1));
  EXPECT_THAT(told, ElementsAre(1, 2));
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(1, 2)) << "once each";

  says({.source = Source::kUnanswered});
  store_->answer();
  says({.allowed = true});
  store_->answer();
  clock_->run();
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(2)) << "it was renewed, and is nobody's";
  store_->late = false;
  clock_->pass(seconds(100));
  EXPECT_FALSE(second->held());
  EXPECT_THAT(told, ElementsAre(1, 2));
  EXPECT_THAT(store_->asked, IsEmpty());
}

TEST_F(PermitKeeperTest, WhatHasLapsedIsGivenBackAsARenewalMayComeLate) {
  const auto permit = hold(1);
  store_->late = true;
  clock_->pass(seconds(60));
  EXPECT_FALSE(permit->held());
  asked(Operation::kRenew);
  permit->release();
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(1));
  while (store_->under_way() > 0) store_->answer();
  clock_->run();
  EXPECT_THAT(store_->asked, IsEmpty());
}

TEST_F(PermitKeeperTest, LetsGoOfWhatIsBeingRenewed) {
  const auto first = hold(1);
  const auto second = hold(2);
  const auto third = hold(3);
  store_->late = true;
  clock_->pass(seconds(20));
  second->release();
  asked(Operation::kRenew);
  store_->answer();
  clock_->run();
  store_->late = false;
  clock_->pass(seconds(20));
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(1, 3));
  EXPECT_TRUE(first->held());
  EXPECT_TRUE(third->held());
}

TEST_F(PermitKeeperTest, WhoReleasesItWaitsForTheOneWhoIsToldThatItHasLapsed) {
  const auto permit = hold(7);
  std::promise<void> begun;
  std::promise<void> releasing;
  std::atomic<bool> has_ended = false;
  permit->on_lapse([&] {
    begun.set_value();
    releasing.get_future().wait();
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    has_ended = true;
  });
  says({.allowed = false, .retry_after = kNever});
  std::jthread time([&] { clock_->pass(seconds(20)); });
  begun.get_future().wait();
  releasing.set_value();
  permit->release();
  EXPECT_TRUE(has_ended);
}

TEST_F(PermitKeeperTest, AProcessThatStoodStillTooLongHasLostIt) {
  const auto permit = hold(7);
  int told = 0;
  permit->on_lapse([&] { ++told; });
  clock_->freeze(seconds(60));
  EXPECT_FALSE(permit->held()) << "before anybody could tell it";
  clock_->run();
  EXPECT_EQ(told, 1);
  EXPECT_THAT(store_->asked, IsEmpty());
}

TEST_F(PermitKeeperTest, OneThatTheStoreDidNotGiveIsItsGiversToRenew) {
  const auto local = hold(1, Source::kLocal);
  const auto policy = hold(2, Source::kPolicy);
  store_->says = [](const Request& request) {
    return Decision{.allowed = true, .source = request.giver};
  };
  clock_->pass(seconds(200));
  EXPECT_TRUE(local->held());
  EXPECT_TRUE(policy->held());
  store_->asked.clear();
  local->release();
  ASSERT_EQ(store_->asked.size(), 1U);
  EXPECT_EQ(store_->asked[0].giver, Source::kLocal);
  policy->release();
  EXPECT_EQ(store_->asked[1].giver, Source::kPolicy);
}

TEST_F(PermitKeeperTest, OneThatAFullStoreGaveStays) {
  const auto permit = hold(7, Source::kFull);
  says({.allowed = false, .retry_after = kNever});
  clock_->pass(seconds(300));
  EXPECT_TRUE(permit->held());
}

TEST_F(PermitKeeperTest, AShorterLeaseIsRenewedEarlier) {
  const auto longer = hold(1);
  keeper_->slot().set_limit(Limit("concurrency 4 lease=3s", "jobs"));
  const auto shorter = hold(2);
  clock_->pass(seconds(1));
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(2));
  clock_->pass(seconds(19));
  EXPECT_EQ(asked(Operation::kRenew).size(), 20U);
  longer->release();
  shorter->release();
}

TEST_F(PermitKeeperTest, GivesBackWhatItCannotLookAfter) {
  clock_->is_full = true;
  EXPECT_THROW(hold(1), std::bad_alloc);
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(1));
  EXPECT_THROW(hold(2, Source::kLocal), std::bad_alloc);
  EXPECT_EQ(store_->asked.back().giver, Source::kLocal);
  clock_->is_full = false;
  const auto third = hold(3);
  asked(Operation::kRelease);
  clock_->pass(seconds(20));
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(3)) << "nobody has the others";
}

TEST_F(PermitKeeperTest, WhatItCannotLookAfterDisturbsNoOther) {
  const auto longer = hold(1);
  keeper_->slot().set_limit(Limit("concurrency 4 lease=3s", "jobs"));
  clock_->is_full = true;
  EXPECT_THROW(hold(2), std::bad_alloc);
  clock_->is_full = false;
  store_->asked.clear();
  clock_->pass(seconds(20));
  EXPECT_THAT(asked(Operation::kRenew), ElementsAre(1));
}

TEST_F(PermitKeeperTest, PermitsOutliveTheLimiter) {
  const auto permit = hold(7);
  keeper_.reset();
  clock_->pass(seconds(100));
  EXPECT_TRUE(permit->held());
  EXPECT_EQ(asked(Operation::kRenew).size(), 5U);
  permit->release();
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(7));
}

}  // namespace
}  // namespace sluice
