// Permits whose limiter has gone, or for which there is no memory.

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <new>

#include "limiter/keeper_under_test.h"

namespace sluice {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

TEST_F(PermitKeeperTest, StaysWhileThereArePermitsWhereItsLimiterHasGone) {
  const std::weak_ptr<PermitKeeper> keeper = keeper_;
  auto first = hold(1);
  auto second = hold(2);
  keeper_->outlive_limiter();
  keeper_.reset();
  first.reset();
  second->release();
  EXPECT_FALSE(second->held());
  EXPECT_FALSE(keeper.expired());
  second.reset();
  EXPECT_TRUE(keeper.expired());
}

TEST_F(PermitKeeperTest, StaysForAPermitThatIsGrantedAfterItsLimiterHasGone) {
  const std::weak_ptr<PermitKeeper> keeper = keeper_;
  keeper_->outlive_limiter();
  auto permit = hold(1);
  keeper_.reset();
  EXPECT_FALSE(keeper.expired());
  permit.reset();
  EXPECT_TRUE(keeper.expired());
}

TEST_F(PermitKeeperTest, PermitsOutliveTheLimiter) {
  const auto permit = hold(7);
  keeper_->outlive_limiter();
  keeper_.reset();
  clock_->pass(seconds(100));
  EXPECT_TRUE(permit->held());
  EXPECT_EQ(asked(Operation::kRenew).size(), 5U);
  permit->release();
  EXPECT_THAT(asked(Operation::kRelease), ElementsAre(7));
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

}  // namespace
}  // namespace sluice
