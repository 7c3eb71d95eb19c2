#include <gmock/gmock.h>

#include "limiter/guard_under_test.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t kLeaseNs = 60'000'000'000;

/// What a guarded store does with permits.
class GuardedPermitsTest : public GuardUnderTest {
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
    inner_->loses = [](const Request&) { return false; };
    inner_->asked.clear();
  }
};

TEST_F(GuardedPermitsTest, AsksForEach) {
  guard({}, "concurrency 1");
  EXPECT_TRUE(decide({.permit = 1}).allowed);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(decide({.permit = 2}).source, Source::kStore);
  EXPECT_EQ(store_->counters().cached_denials, 0U);
}

TEST_F(GuardedPermitsTest, WhatTheStoreGaveCountsWhereItIsLost) {
  guard({}, "concurrency 3");
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

TEST_F(GuardedPermitsTest, LocalStatesFollowWhatIsRenewedAndReleased) {
  guard({}, "concurrency 2");
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

TEST_F(GuardedPermitsTest, WhatTheStoreDoesNotHoldIsNotHeldHere) {
  guard({}, "concurrency 1");
  acquire(1);
  // Forgotten there, by somebody else.
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

TEST_F(GuardedPermitsTest, AnUnansweredRenewalSaysSo) {
  guard({}, "concurrency 1");
  acquire(1);
  inner_->lose_all();
  const Decision renewed = renew(1, Source::kStore, kStart + kLeaseNs / 2);
  EXPECT_TRUE(renewed.allowed);
  EXPECT_EQ(renewed.source, Source::kLocal);
  EXPECT_FALSE(acquire(2, kStart + kLeaseNs).allowed);
}

TEST_F(GuardedPermitsTest, WhatIsGivenHereStaysHere) {
  guard({}, "concurrency 2");
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

TEST_F(GuardedPermitsTest, WhatNobodyGaveIsAlwaysHeld) {
  guard({.on_failure = OnFailure::kAllow}, "concurrency 2");
  inner_->lose_all();
  for (PermitId permit = 1; permit < 9; ++permit) {
    EXPECT_EQ(acquire(permit), (Decision{.allowed = true, .source = Source::kPolicy, .limit = 2}));
  }
  find_again();
  EXPECT_EQ(renew(1, Source::kPolicy).source, Source::kPolicy);
  EXPECT_TRUE(release(1, Source::kPolicy).allowed);
  EXPECT_TRUE(inner_->asked.empty());
}

TEST_F(GuardedPermitsTest, WhatMayHaveBeenGivenLateIsReleasedByTheStoreAlone) {
  guard({}, "concurrency 2");
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
  const Decision released = release(1, Source::kUnanswered);
  EXPECT_TRUE(released.allowed);
  EXPECT_EQ(released.source, Source::kStore);
  EXPECT_TRUE(renew(1, Source::kLocal).allowed) << "it is held here";

  const std::uint64_t local_answers = store_->counters().local_answers;
  inner_->lose_all();
  EXPECT_EQ(release(1, Source::kUnanswered).source, Source::kUnanswered);
  EXPECT_EQ(store_->counters().local_answers, local_answers);
  EXPECT_TRUE(renew(1, Source::kLocal).allowed);
}

TEST_F(GuardedPermitsTest, FollowThePolicy) {
  guard({.on_failure = OnFailure::kDeny}, "concurrency 2");
  acquire(1);
  inner_->lose_all();
  EXPECT_EQ(acquire(2).retry_after, kPolicyWait);
  const Decision renewed = renew(1);
  EXPECT_TRUE(renewed.allowed);
  EXPECT_EQ(renewed.source, Source::kPolicy);
  guard({.on_failure = OnFailure::kRaise}, "concurrency 2");
  EXPECT_THROW(acquire(3), StoreError);
  EXPECT_THROW(renew(1), StoreError);
}

TEST_F(GuardedPermitsTest, GivesAShareOfThem) {
  guard({.local_share = 4}, "concurrency 11");
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

TEST_F(GuardedPermitsTest, ALimitBelowTheShareGivesNone) {
  guard({.local_share = 12}, "concurrency 11");
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

TEST_F(GuardedPermitsTest, AreNotTakenTogether) {
  guard({}, "concurrency 2");
  EXPECT_THROW(decide_all({{.key = "a", .permit = 1}, {.key = "b", .permit = 2}}),
               std::invalid_argument);
}

/// Tells what it was asked to watch.
class WatchedStore final : public Store {
 public:
  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override {
    return memory_.open_space(limit);
  }
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override {
    memory_.decide(requests, now, decisions);
  }
  Decision decide_all(std::span<const Request> requests, Instant now) override {
    return memory_.decide_all(requests, now);
  }
  std::unique_ptr<Watch> watch(const std::shared_ptr<Space>& space, std::string_view key,
                               std::function<void()> released) override {
    watched_space = space;
    watched_key = key;
    released();
    return std::make_unique<Watch>();
  }
  Instant now() const override { return memory_.now(); }

  std::shared_ptr<Space> watched_space;
  std::string watched_key;

 private:
  MemoryStore memory_;
};

TEST(GuardedWatch, WatchesTheStoreInside) {
  const auto inner = std::make_shared<WatchedStore>();
  GuardedStore store(inner, {});
  const Limit limit("concurrency 2", "limit");
  const auto space = store.open_space(limit.definition());
  int released = 0;
  EXPECT_NE(store.watch(space, "k", [&] { ++released; }), nullptr);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(inner->watched_key, "k");
  EXPECT_EQ(inner->watched_space, inner->open_space(limit.definition()));
}

}  // namespace
}  // namespace sluice
