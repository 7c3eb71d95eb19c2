#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

/// Answers of the store that come after the policy has answered the caller.
class FallbackLateTest : public FallbackFixture {
 protected:
  using Asks = std::vector<Ask>;

  void SetUp() override { inner_->answers = ScriptedStore::Answers::kWhenTold; }

  // The deadline passes; the store may answer later.
  std::shared_ptr<Submitted> ask_late(const Asks& asks, Batch::Mode mode = Batch::Mode::kEach,
                                      Instant now = kStart) {
    auto asked = submit(asks, mode, now);
    inner_->be_late();
    EXPECT_EQ(asked->completions, 1);
    return asked;
  }
  // What the local states have left of a key, while the store is lost.
  std::int64_t left(std::string_view key = "k", Instant now = kStart) {
    inner_->lose_all();
    const std::int64_t remaining = decide({.key = key, .cost = 0}, now).remaining;
    inner_->lose_nothing();
    return remaining;
  }
  // The store answers, and is charged with what it lacks: returns with how much.
  std::int64_t charged_back(Instant now = kStart) {
    inner_->asked.clear();
    decide({.key = "other", .cost = 0}, now);
    inner_->answer_all();
    std::int64_t units = 0;
    for (const auto& asked : inner_->asked) {
      if (asked.operation == Operation::kCharge) units += asked.cost;
    }
    return units;
  }
  std::uint64_t counted_as_charged() const { return store_->counters().charged_back; }
  std::uint64_t counted_as_not_charged() const { return store_->counters().not_charged_back; }
};

// They count here, whatever an earlier answer says remains.
TEST_F(FallbackLateTest, AreAwaitedForEachRequest) {
  wrap({}, "fixed_window 40/1h");
  ask_late({{.cost = 5}});
  ask_late({{.cost = 7}});
  EXPECT_EQ(left(), 28);
  inner_->answer();
  EXPECT_EQ(left(), 28) << "the store has told of 5, and may have taken 7 since";
  decide_elsewhere({.cost = 1}, kStart);
  inner_->answer();
  EXPECT_EQ(left(), 27);
}

TEST_F(FallbackLateTest, SettleAndCountNoOtherRequests) {
  wrap({}, "fixed_window 40/1h");
  ask_late({{.cost = 5}});
  inner_->lose_all();
  EXPECT_TRUE(decide({.cost = 7}, kStart).allowed);
  inner_->lose_nothing();
  inner_->answer();
  std::vector<DecisionCount> counts;
  store_->add_counts(counts);
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_EQ(counts[0].source, Source::kLocal) << "who has answered both callers";
  EXPECT_EQ(charged_back(), 7);
  EXPECT_EQ(counted_as_charged(), 12U);
}

// By the connection to a server of a cluster that had the key before.
TEST_F(FallbackLateTest, MayBeOlderThanWhatTheStoreHasToldSince) {
  wrap({}, "fixed_window 40/1h");
  ask_late({{.cost = 5}});
  inner_->on_the_way = [&] { decide({.cost = 30}, kStart + 1); };
  inner_->answer();
  EXPECT_EQ(left("k", kStart + 1), 5);
  ask_late({Ask{}}, Batch::Mode::kEach, kStart + 3);
  ask_late({{.operation = Operation::kReset}}, Batch::Mode::kEach, kStart + 2);
  inner_->answer_all();
  EXPECT_EQ(left("k", kStart + 3), 40) << "what is given back here is seen at once";
}

// What was admitted here was denied there: the store is charged with it.
TEST_F(FallbackLateTest, ThatDenyAreNoCharge) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.cost = 38}, kStart);
  EXPECT_TRUE(ask_late({{.cost = 5}})->decisions[0].allowed);
  inner_->answer();
  EXPECT_EQ(left(), 0);
  EXPECT_EQ(charged_back(), 5);
  EXPECT_EQ(counted_as_charged(), 5U);
  EXPECT_EQ(counted_as_not_charged(), 0U);
  EXPECT_EQ(decide_elsewhere({.cost = 0}, kStart).remaining, 0);
}

TEST_F(FallbackLateTest, ThatDenyAreRemembered) {
  for (const OnFailure policy : {OnFailure::kLocal, OnFailure::kDeny}) {
    wrap({.on_failure = policy}, "fixed_window 40/1000d");
    decide_elsewhere({.operation = Operation::kReset});
    decide_elsewhere({.cost = 40});
    ask_late({Ask{}}, Batch::Mode::kEach, kStoreTime);
    inner_->answer();
    EXPECT_EQ(decide(Ask{}).source, Source::kCache);
  }
}

TEST_F(FallbackLateTest, OfChargesTellWhatWasCharged) {
  wrap({}, "fixed_window 40/1h & token_bucket 100/1h");
  const auto charge_late = [this] {
    inner_->lose_all();
    EXPECT_TRUE(decide({.cost = 5}, kStart).allowed);
    inner_->lose_nothing();
    decide({.key = "other", .cost = 0}, kStart);
    inner_->be_late();
    EXPECT_EQ(counted_as_not_charged(), 0U);
  };
  charge_late();
  EXPECT_EQ(left(), 35) << "they count until the store has answered";
  inner_->answer();
  EXPECT_EQ(left(), 35);
  EXPECT_EQ(counted_as_charged(), 5U);
  charge_late();
  inner_->lose_all();
  inner_->answer();
  inner_->lose_nothing();
  EXPECT_EQ(left(), 30);
  EXPECT_EQ(charged_back(kStart + ChargeBack::kPause), 5) << "it was refused";
  EXPECT_EQ(left(), 30);
  EXPECT_EQ(counted_as_charged(), 10U);
  EXPECT_EQ(counted_as_not_charged(), 0U);
}

TEST_F(FallbackLateTest, OfSomeChargesSettleNoOthersAgain) {
  wrap({}, "fixed_window 40/1h");
  inner_->lose_all();
  for (const char* key : {"late", "lost"}) EXPECT_TRUE(decide({.key = key}, kStart).allowed);
  inner_->lose_nothing();
  decide({.key = "other", .cost = 0}, kStart);
  inner_->says = [](const Request& asked) -> std::optional<Decision> {
    if (asked.key != "lost") return std::nullopt;
    return Decision{.source = Source::kUnavailable, .taken = kTakenUnknown};
  };
  inner_->be_late("late");
  EXPECT_EQ(counted_as_not_charged(), 1U);
  inner_->answer();
  EXPECT_EQ(counted_as_not_charged(), 1U);
  EXPECT_EQ(counted_as_charged(), 1U);
}

// Callers of the store would wait behind them.
TEST_F(FallbackLateTest, ChargesOfManyKeysFollowEachOther) {
  constexpr std::size_t kKeys = 3 * ChargeBack::kAtOnce;
  wrap({}, "fixed_window 40/1h");
  inner_->lose_all();
  for (std::size_t i = 0; i < kKeys; ++i) decide({.key = std::to_string(i)}, kStart);
  inner_->lose_nothing();
  inner_->batches.clear();
  for (int i = 0; i < 5; ++i) decide({.key = "other", .cost = 0}, kStart);
  EXPECT_EQ(std::ranges::max(inner_->batches), ChargeBack::kAtOnce);
  EXPECT_EQ(inner_->pending(), 1U) << "the first batch has no answer";
  for (int i = 0; i < 3; ++i) inner_->answer_all();
  EXPECT_EQ(counted_as_charged(), kKeys);
}

// Another key's answer, which says that the store is back, comes before that to the reset.
TEST_F(FallbackLateTest, LetNothingBeChargedBehindAReset) {
  wrap({}, "fixed_window 40/1h");
  inner_->lose_all();
  EXPECT_TRUE(decide({.cost = 5}, kStart).allowed);
  inner_->lose_nothing();
  submit({{.key = "other", .cost = 0}}, Batch::Mode::kEach, kStart);
  submit({{.operation = Operation::kReset}}, Batch::Mode::kEach, kStart);
  for (int i = 0; i < 2; ++i) inner_->answer_all();
  EXPECT_EQ(counted_as_charged(), 0U);
  EXPECT_EQ(decide_elsewhere({.cost = 0}, kStart).remaining, 40);
}

// They may come after it in the store as well.
TEST_F(FallbackLateTest, OfAResetForgetNothingThatWasAdmittedSince) {
  wrap({}, "fixed_window 40/1h");
  ask_late({{.operation = Operation::kReset}});
  inner_->lose_all();
  EXPECT_TRUE(decide({.cost = 5}, kStart).allowed);
  inner_->lose_nothing();
  inner_->answer();
  EXPECT_EQ(charged_back(), 5);
}

TEST_F(FallbackLateTest, OfATakeEndABlockIfTheTakeWasSentAfterIt) {
  wrap({}, "fixed_window 40/1h");
  const Instant later = kStart + 1;
  ask_late({Ask{}});
  ask_late({{.operation = Operation::kBlock, .duration_ns = kHourNs}}, Batch::Mode::kEach, later);
  inner_->answer_all();
  EXPECT_EQ(left("k", later), 0);
  decide_elsewhere({.operation = Operation::kReset}, later);
  ask_late({Ask{}}, Batch::Mode::kEach, later);
  inner_->answer();
  EXPECT_EQ(left("k", later), 39);
}

TEST_F(FallbackLateTest, TellWhatWasLeftToTake) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.cost = 38}, kStart);
  ask_late({{.cost = 5, .operation = Operation::kTakeUpTo}});
  inner_->answer();
  EXPECT_EQ(charged_back(), 3) << "the store had two";
  EXPECT_EQ(counted_as_charged(), 5U);
  // What another process gives back is taken by the late request, but was not admitted here.
  submit({{.key = "more", .cost = 38}}, Batch::Mode::kEach, kStart);
  inner_->answer();
  decide_elsewhere({.key = "more", .cost = 30, .operation = Operation::kRefund}, kStart);
  ask_late({{.key = "more", .cost = 5, .operation = Operation::kTakeUpTo}});
  inner_->answer();
  EXPECT_EQ(counted_as_charged(), 7U);
}

TEST_F(FallbackLateTest, TellOfAGroup) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.key = "a", .cost = 30}, kStart);
  ask_late({{.key = "a", .cost = 2}, {.key = "b", .cost = 3}}, Batch::Mode::kTogether);
  inner_->be_late();  // Once more: it is awaited as it was asked.
  inner_->answer();
  EXPECT_EQ(left("a"), 8);
  EXPECT_EQ(left("b"), 37);
  EXPECT_EQ(charged_back(), 0);
  EXPECT_EQ(counted_as_charged(), 5U);
  decide_elsewhere({.key = "a", .cost = 8}, kStart);
  ask_late({{.key = "a", .cost = 2}, {.key = "b", .cost = 3}}, Batch::Mode::kTogether);
  inner_->answer();
  EXPECT_EQ(charged_back(), 5);
  ask_late({{.key = "c", .cost = 2}, {.key = "d", .cost = 3}}, Batch::Mode::kTogether);
  inner_->lose_replies();
  inner_->answer();
  EXPECT_EQ(counted_as_not_charged(), 5U);
}

TEST_F(FallbackLateTest, TellOfEachPart) {
  wrap({}, "fixed_window 40/1h & fixed_window 100/1000d");
  decide_elsewhere({.cost = 30}, kStart);
  ask_late({Ask{}});
  inner_->answer();
  EXPECT_EQ(left(), 9);
  EXPECT_EQ(left("k", kStart + kHourNs), 40);
  decide_elsewhere({.cost = 39}, kStart + kHourNs);
  ask_late({Ask{}}, Batch::Mode::kEach, kStart + kHourNs);
  inner_->answer();
  EXPECT_EQ(left("k", kStart + 2 * kHourNs), 29);
}

TEST_F(FallbackLateTest, TellOfSomeRequestsOfABatch) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.key = "late", .cost = 30}, kStart);
  const auto asked =
      submit({{.key = "a"}, {.key = "late"}, {.key = "b"}}, Batch::Mode::kEach, kStart);
  inner_->be_late("late");
  EXPECT_EQ(asked->decisions[0].source, Source::kStore);
  EXPECT_EQ(asked->decisions[1].source, Source::kLocal);
  EXPECT_EQ(asked->decisions[1].remaining, 39) << "nothing was told yet";
  EXPECT_EQ(asked->decisions[2].source, Source::kStore);
  inner_->answer();
  EXPECT_EQ(left("late"), 9);
}

// What becomes of the units then: see the table in docs/failure.md.
TEST_F(FallbackLateTest, MayNotCome) {
  wrap({}, "fixed_window 40/1h");
  ask_late({{.cost = 5}});
  inner_->lose_replies();
  inner_->answer();
  inner_->says = nullptr;
  EXPECT_EQ(left(), 35);
  EXPECT_EQ(counted_as_not_charged(), 5U);
  ask_late({{.cost = 7}});
  inner_->lose_all();
  inner_->answer();
  inner_->lose_nothing();
  EXPECT_EQ(left(), 28);
  EXPECT_EQ(charged_back(), 7) << "it was not executed";
  EXPECT_EQ(counted_as_not_charged(), 5U);
}

// A permit that is granted late is released by its caller, and counts in no local state.
TEST_F(FallbackLateTest, GrantNoPermit) {
  wrap({}, "concurrency 3");
  const auto asked = ask_late({{.permit = 1}});
  EXPECT_TRUE(asked->decisions[0].allowed);
  EXPECT_EQ(asked->decisions[0].taken, kTakenUnknown);
  inner_->answer();
  EXPECT_EQ(left(), 2) << "the one that was granted here";
  EXPECT_EQ(decide_elsewhere({.cost = 0}, kStart).remaining, 2);
  const auto reclaimed =
      ask_late({{.operation = Operation::kRelease, .permit = 1, .is_reclaim = true}});
  EXPECT_EQ(reclaimed->decisions[0].taken, kTakenUnknown) << "its caller awaits no later answer";
  inner_->answer();
  EXPECT_EQ(decide_elsewhere({.cost = 0}, kStart).remaining, 3);
}

TEST_F(FallbackLateTest, ComeAfterTheLimitIsGone) {
  wrap({}, "fixed_window 40/1h & token_bucket 50/1h");
  decide_elsewhere({.cost = 30}, kStart);
  ask_late({Ask{}});
  auto former = std::move(limit_);
  limit_ = std::make_unique<Limit>(former->expression(), "limit");
  space_.reset();
  former.reset();
  EXPECT_EQ(inner_->held_spaces(), 1U) << "that of the request";
  inner_->answer();
  EXPECT_EQ(inner_->held_spaces(), 0U);
  space_ = store_->open_space(limit_->definition());
  EXPECT_EQ(left(), 9);
}

// Neither an awaited answer nor a charge is a user of the space.
TEST_F(FallbackLateTest, KeepNoLimitFromBeingReplaced) {
  wrap({}, "fixed_window 40/1h");
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  inner_->lose_nothing();
  decide({.key = "other", .cost = 0}, kStart);
  EXPECT_EQ(inner_->asked.back().operation, Operation::kCharge);
  ask_late({Ask{}});
  const Limit other_kind("sliding_log 40/1h", "limit");
  ASSERT_NO_THROW(space_ = store_->replace_space(space_, other_kind.definition()));
  *limit_ = other_kind;
  inner_->answer_all();
  EXPECT_EQ(left(), 40);
}

TEST_F(FallbackLateTest, KeepNoNameFromALimitOfAnotherKind) {
  wrap({}, "fixed_window 40/1h");
  ask_late({Ask{}});
  space_.reset();
  space_ = store_->open_space(Limit("fixed_window 30/1h", "limit").definition());
  space_.reset();
  limit_ = std::make_unique<Limit>("sliding_log 40/1h", "limit");
  ASSERT_NO_THROW(space_ = store_->open_space(limit_->definition()));
  inner_->answer();
  EXPECT_EQ(left(), 40);
}

TEST_F(FallbackLateTest, LetNoLimitOfAnotherKindReplaceOneInUse) {
  wrap({}, "fixed_window 40/1h");
  ask_late({Ask{}});
  const Limit other_kind("sliding_log 40/1h", "limit");
  EXPECT_THROW(store_->open_space(other_kind.definition()), StoreError);
  inner_->answer();
}

// What is pending is then answered by the policy.
TEST_F(FallbackLateTest, AreNotAwaitedAfterTheStoreIsGone) {
  wrap({}, "fixed_window 40/1h");
  const auto late = ask_late({Ask{}});
  const auto pending = submit({Ask{}});
  space_.reset();
  inner_.reset();
  store_.reset();
  EXPECT_EQ(late->completions, 1);
  ASSERT_EQ(pending->completions, 1);
  EXPECT_EQ(pending->decisions[0].source, Source::kLocal);
}

}  // namespace
}  // namespace sluice
