#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "limiter/keeper_under_test.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

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

}  // namespace
}  // namespace sluice
