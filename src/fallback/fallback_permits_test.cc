#include <gmock/gmock.h>

#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t kLeaseNs = 60'000'000'000;

/// What a FallbackStore does with permits.
class FallbackPermitsTest : public FallbackFixture {
 protected:
  Decision acquire(PermitId permit, Instant now = kStart) {
    return decide({.permit = permit}, now);
  }
  Decision renew(PermitId permit, Source giver = Source::kStore, Instant now = kStart) {
    return decide({.operation = Operation::kRenew, .permit = permit, .giver = giver}, now);
  }
  Decision release(PermitId permit, Source giver = Source::kStore) {
    return decide({.operation = Operation::kRelease, .permit = permit, .giver = giver}, kStart);
  }
  void find_again() {
    inner_->lose_nothing();
    inner_->asked.clear();
  }
};

TEST_F(FallbackPermitsTest, AsksForEach) {
  wrap({}, "concurrency 1");
  EXPECT_TRUE(decide({.permit = 1}).allowed);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(decide({.permit = 2}).source, Source::kStore);
  EXPECT_EQ(store_->counters().cached_denials, 0U);
}

TEST_F(FallbackPermitsTest, WhatTheStoreGaveCountsWhereItIsLost) {
  wrap({}, "concurrency 3");
  acquire(1);
  acquire(2);
  inner_->lose_all();
  const Decision third = acquire(3);
  EXPECT_TRUE(third.allowed);
  EXPECT_EQ(third.source, Source::kLocal);
  EXPECT_EQ(third.limit, 3);
  EXPECT_EQ(third.remaining, 0);
  EXPECT_EQ(acquire(4).retry_after, nanoseconds(kLeaseNs));
  // The store did not release it: here it counts no more.
  const Decision released = release(1);
  EXPECT_TRUE(released.allowed);
  EXPECT_EQ(released.source, Source::kLocal);
  EXPECT_TRUE(acquire(4).allowed);
}

TEST_F(FallbackPermitsTest, LocalStatesFollowWhatIsRenewedAndReleased) {
  wrap({}, "concurrency 2");
  acquire(1);
  acquire(2);
  EXPECT_TRUE(renew(1, Source::kStore, kStart + kLeaseNs / 2).allowed);
  EXPECT_TRUE(release(2).allowed);
  inner_->lose_all();
  const Instant later = kStart + kLeaseNs + kLeaseNs / 4;
  EXPECT_EQ(decide({.cost = 0}, later).remaining, 1);
  EXPECT_TRUE(acquire(3, later).allowed);
  EXPECT_EQ(acquire(4, later).retry_after, nanoseconds(kLeaseNs / 4));
}

TEST_F(FallbackPermitsTest, WhatTheStoreDoesNotHoldIsNotHeldHere) {
  wrap({}, "concurrency 1");
  acquire(1);
  // Another process has reset it.
  const auto inner_space = inner_->open_space(limit_->definition());
  const Request reset{.limit = &limit_->definition(),
                      .space = inner_space.get(),
                      .key = "k",
                      .operation = Operation::kReset};
  Decision decision;
  inner_->decide({&reset, 1}, kStart, {&decision, 1});
  EXPECT_EQ(renew(1).retry_after, kNever);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 1);
}

TEST_F(FallbackPermitsTest, AnUnansweredRenewalSaysSo) {
  wrap({}, "concurrency 1");
  acquire(1);
  inner_->lose_all();
  const Decision renewed = renew(1, Source::kStore, kStart + kLeaseNs / 2);
  EXPECT_TRUE(renewed.allowed);
  EXPECT_EQ(renewed.source, Source::kLocal);
  EXPECT_FALSE(acquire(2, kStart + kLeaseNs).allowed);
}

TEST_F(FallbackPermitsTest, WhatIsGivenHereStaysHere) {
  wrap({}, "concurrency 2");
  inner_->lose_all();
  acquire(1);
  find_again();
  EXPECT_TRUE(renew(1, Source::kLocal).allowed);
  EXPECT_EQ(renew(1, Source::kLocal).source, Source::kLocal);
  EXPECT_TRUE(release(1, Source::kLocal).allowed);
  const Decision twice = release(1, Source::kLocal);
  EXPECT_FALSE(twice.allowed);
  EXPECT_EQ(twice.retry_after, kNever);
  EXPECT_TRUE(inner_->asked.empty());
}

TEST_F(FallbackPermitsTest, WhatThePolicyGaveIsAlwaysHeld) {
  wrap({.on_failure = OnFailure::kAllow}, "concurrency 2");
  inner_->lose_all();
  for (PermitId permit = 1; permit < 9; ++permit) {
    EXPECT_EQ(acquire(permit), (Decision{.allowed = true, .source = Source::kPolicy, .limit = 2}));
  }
  find_again();
  EXPECT_EQ(renew(1, Source::kPolicy).source, Source::kPolicy);
  EXPECT_TRUE(release(1, Source::kPolicy).allowed);
  EXPECT_TRUE(inner_->asked.empty());
}

TEST_F(FallbackPermitsTest, WhatMayHaveBeenGivenLateIsReleasedByTheStoreAlone) {
  wrap({}, "concurrency 2");
  inner_->lose_all();
  EXPECT_EQ(acquire(1).source, Source::kLocal);
  find_again();
  // It arrives after all.
  const auto inner_space = inner_->open_space(limit_->definition());
  Request take = request({.permit = 1});
  take.space = inner_space.get();
  Decision taken;
  inner_->decide({&take, 1}, kStart, {&taken, 1});
  EXPECT_TRUE(taken.allowed);
  const Decision released = release(1, Source::kUnavailable);
  EXPECT_TRUE(released.allowed);
  EXPECT_EQ(released.source, Source::kStore);
  EXPECT_TRUE(renew(1, Source::kLocal).allowed) << "it is held here";

  const std::uint64_t local_answers = store_->counters().local_answers;
  inner_->lose_all();
  EXPECT_EQ(release(1, Source::kUnavailable).source, Source::kUnavailable);
  EXPECT_EQ(store_->counters().local_answers, local_answers);
  EXPECT_TRUE(renew(1, Source::kLocal).allowed);
}

TEST_F(FallbackPermitsTest, FollowThePolicy) {
  wrap({.on_failure = OnFailure::kDeny}, "concurrency 2");
  acquire(1);
  inner_->lose_all();
  EXPECT_EQ(acquire(2).retry_after, kPolicyWait);
  const Decision renewed = renew(1);
  EXPECT_TRUE(renewed.allowed);
  EXPECT_EQ(renewed.source, Source::kPolicy);
  wrap({.on_failure = OnFailure::kRaise}, "concurrency 2");
  EXPECT_THROW(acquire(3), StoreError);
  EXPECT_THROW(renew(1), StoreError);
}

TEST_F(FallbackPermitsTest, GivesAShareOfThem) {
  wrap({.local_share = 4}, "concurrency 11");
  acquire(1);
  inner_->lose_all();
  const Decision second = acquire(2);
  EXPECT_TRUE(second.allowed);
  EXPECT_EQ(second.limit, 2);
  EXPECT_EQ(second.remaining, 0);
  EXPECT_EQ(acquire(3).retry_after, nanoseconds(kLeaseNs));
  EXPECT_TRUE(release(1).allowed);
  EXPECT_TRUE(acquire(3).allowed);
}

TEST_F(FallbackPermitsTest, ALimitBelowTheShareGivesNone) {
  wrap({.local_share = 12}, "concurrency 11");
  acquire(1);
  inner_->lose_all();
  const Decision denied = acquire(2);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.source, Source::kLocal);
  EXPECT_EQ(denied.retry_after, kPolicyWait);
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 0);
  EXPECT_TRUE(renew(1).allowed) << "what the store gave is still held";
  EXPECT_TRUE(release(1).allowed);
}

TEST_F(FallbackPermitsTest, AreNotTakenTogether) {
  wrap({}, "concurrency 2");
  EXPECT_THROW(decide_all({{.key = "a", .permit = 1}, {.key = "b", .permit = 2}}),
               std::invalid_argument);
}

TEST_F(FallbackPermitsTest, WatchesTheStoreInside) {
  inner_->tells = true;
  wrap({}, "concurrency 2");
  int released = 0;
  const auto watch = store_->watch(space_, "k", [&] { ++released; });
  ASSERT_EQ(inner_->watched().size(), 1U);
  EXPECT_EQ(inner_->watched()[0].key, "k");
  EXPECT_EQ(inner_->watched()[0].space, inner_->open_space(limit_->definition()));
  inner_->tell();
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace sluice
