#include "fallback/fallback_store.h"

#include <gmock/gmock.h>

#include "core/arithmetic.h"
#include "sluice/health.h"
#include "testing/error_of.h"
#include "testing/failing_new.h"
#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;
using Asked = ScriptedStore::Asked;

class FallbackStoreTest : public FallbackFixture {
 protected:
  /// Asks, and has the decisions of the limit's two parts told.
  Decision decide_with_parts(const Ask& ask) {
    Request asked = request(ask);
    asked.parts = parts_;
    return store_->decide_one(asked);
  }

  std::vector<Decision> parts_ = std::vector<Decision>(2);
};

TEST_F(FallbackStoreTest, PassesOnWhatTheStoreAnswers) {
  wrap({});
  const Decision decision = decide({.cost = 3});
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.source, Source::kStore);
  EXPECT_EQ(decision.remaining, 7);
  decide({.cost = 2, .operation = Operation::kRefund}, kStart);
  EXPECT_THAT(inner_->asked,
              testing::ElementsAre(
                  Asked{.key = "k", .cost = 3},
                  Asked{.key = "k", .operation = Operation::kRefund, .cost = 2, .now = kStart}));
  EXPECT_FALSE(store_->answers_later());
  EXPECT_EQ(store_->counters().unanswered, 0U);
}

// What the local states admit is charged to the store, or the process ends.
TEST_F(FallbackStoreTest, NotesWhatIsToBeChargedEvenWithoutMemory) {
  wrap({});
  inner_->lose_all();
  decide({.key = "first"}, kStart);
  const auto take = [&] { decide({.cost = 3}, kStart); };
  const auto is_whole = [&](bool is_done) {
    const bool has_taken = decide({.cost = 0}, kStart).remaining == 7;
    inner_->lose_nothing();
    decide(Ask{}, kStart);
    return decide_elsewhere({.cost = 0}, kStart).remaining == (has_taken ? 6 : 9) &&
           has_taken >= is_done;
  };
  EXPECT_GT(end_without_memory(take, is_whole), 0);
}

TEST_F(FallbackStoreTest, AnswersForAShareOfTheLimit) {
  wrap({.local_share = 4}, "token_bucket 42/1h");
  decide({.cost = 3});
  inner_->lose_all();
  const Decision peek = decide({.cost = 0});
  EXPECT_TRUE(peek.allowed);
  EXPECT_EQ(peek.limit, 10);
  EXPECT_EQ(peek.remaining, 7);
  EXPECT_EQ(decide({.cost = 7}).remaining, 0);
  EXPECT_FALSE(decide(Ask{}).allowed);
  EXPECT_EQ(decide({.cost = 2, .operation = Operation::kRefund}).remaining, 2);
  EXPECT_EQ(decide({.key = "other", .cost = kMaxInt64 / 3}).retry_after, kNever);
  EXPECT_EQ(decide({.cost = kMaxInt64, .operation = Operation::kRefund}).remaining, 10);
}

TEST_F(FallbackStoreTest, AShareOfTooSmallALimitIsNothing) {
  wrap({.local_share = 11});
  inner_->lose_all();
  // The store would admit it: it is tried again, and only what the limit never admits is not.
  EXPECT_EQ(decide(Ask{}).retry_after, kPolicyWait);
  EXPECT_EQ(decide({.cost = 11}).retry_after, kNever);
  EXPECT_EQ(decide({.cost = 0}).limit, 0);
}

TEST_F(FallbackStoreTest, RefusesOptionsOutOfRange) {
  EXPECT_THROW(wrap({.local_share = 0}), StoreError);
  EXPECT_THROW(wrap({.local_share = 1001}), StoreError);
  EXPECT_THROW(wrap({.local_bytes = 1}), StoreError);
}

TEST_F(FallbackStoreTest, RaisesOnceAllOthersAreDecided) {
  wrap({.on_failure = OnFailure::kRaise});
  lose("b");
  const auto asked = requests({{.key = "a"}, {.key = "b"}, {.key = "c"}});
  std::vector<Decision> decisions(3, Decision{.limit = -1});
  EXPECT_EQ(error_of([&] { store_->decide(asked, kStoreTime, decisions); }), "the line is cut");
  EXPECT_TRUE(decisions[0].allowed);
  EXPECT_EQ(decisions[1], Decision{.source = Source::kUnavailable});
  EXPECT_TRUE(decisions[2].allowed);
  EXPECT_EQ(store_->counters().unanswered, 1U);
}

TEST_F(FallbackStoreTest, AGroupIsAnsweredByThePolicy) {
  inner_->lose_all();
  wrap({.on_failure = OnFailure::kAllow});
  EXPECT_EQ(decide_all({{.key = "a"}, {.key = "b"}}),
            (Decision{.allowed = true, .source = Source::kPolicy, .limit = 10}));
  wrap({.on_failure = OnFailure::kDeny});
  EXPECT_FALSE(decide_all({{.key = "a", .cost = 0}, {.key = "b"}}).allowed);
  EXPECT_TRUE(decide_all({{.key = "a", .cost = 0}}).allowed);
  wrap({.on_failure = OnFailure::kRaise});
  EXPECT_THROW(decide_all({{.key = "a"}}), StoreError);
  wrap({.local_share = 2});
  EXPECT_EQ(decide_all({{.key = "a", .cost = 2}, {.key = "b"}}).remaining, 3);
  EXPECT_EQ(decide_all({{.key = "a"}, {.key = "b", .cost = 11}}).retry_after, kNever);
}

TEST_F(FallbackStoreTest, PartsAreToldByTheStoreAndInItsPlace) {
  wrap({}, "sliding_log 9/1h & sliding_log 4/1h");
  const auto check = [&] { return decide_with_parts({.cost = 2}); };
  EXPECT_EQ(check().binding, 1);
  EXPECT_EQ(parts_[0].remaining, 7);
  EXPECT_EQ(parts_[1].remaining, 2);
  inner_->lose_all();
  EXPECT_EQ(check().source, Source::kLocal);
  for (const Decision& part : parts_) EXPECT_EQ(part.source, Source::kLocal);
  EXPECT_EQ(parts_[0].remaining, 5);
  EXPECT_EQ(check().binding, 1) << "it denies";
  EXPECT_TRUE(parts_[0].allowed);
  EXPECT_FALSE(parts_[1].allowed);

  wrap({.on_failure = OnFailure::kDeny}, "sliding_log 9/1h & sliding_log 4/1h");
  EXPECT_EQ(check().binding, 1) << "the smaller limit";
  for (const Decision& part : parts_) EXPECT_FALSE(part.allowed);
  EXPECT_EQ(parts_[0].limit, 9);
  EXPECT_EQ(parts_[1].limit, 4);
}

TEST_F(FallbackStoreTest, WhatTheStoreDeniedIsDeniedByTheSamePart) {
  wrap({}, "sliding_log 5/1h & sliding_log 6/2h");
  const auto check = [&](std::int64_t cost) { return decide_with_parts({.cost = cost}); };
  decide({.cost = 3});
  EXPECT_EQ(check(4).binding, 1);
  inner_->lose_all();
  const Decision whole = check(4);
  EXPECT_EQ(whole.binding, 1);
  EXPECT_GT(whole.retry_after, std::chrono::hours(1));
  EXPECT_EQ(parts_[1].retry_after, whole.retry_after);
  EXPECT_LE(parts_[0].retry_after, std::chrono::hours(1)) << "not the wait of the other part";
  EXPECT_EQ(parts_[0].remaining, 2) << "nothing is taken";
  EXPECT_TRUE(decide(Ask{}).allowed) << "less than was denied";
}

TEST_F(FallbackStoreTest, AGroupTellsWhatEachAnswersByTheStoreAndInItsPlace) {
  wrap({.local_share = 2});
  std::vector<Decision> parts(2);
  const auto check_both = [&] {
    auto asked = requests({{.key = "a"}, {.key = "b", .cost = 4}});
    for (std::size_t i = 0; i < 2; ++i) asked[i].parts = std::span(parts).subspan(i, 1);
    return store_->decide_all(asked, kStoreTime);
  };
  EXPECT_EQ(check_both().binding, 1);
  EXPECT_EQ(parts[0].remaining, 9);
  EXPECT_EQ(parts[1].remaining, 6);
  inner_->lose_all();
  EXPECT_EQ(check_both().binding, 1) << "its share is used up";
  EXPECT_TRUE(parts[0].allowed);
  EXPECT_EQ(parts[0].limit, 5);
  EXPECT_EQ(parts[0].remaining, 4);
  EXPECT_FALSE(parts[1].allowed);
  EXPECT_EQ(parts[1].source, Source::kLocal);

  wrap({.on_failure = OnFailure::kAllow});
  EXPECT_TRUE(check_both().allowed);
  for (const Decision& part : parts) EXPECT_EQ(part.source, Source::kPolicy);
}

// Of each request of a group, its own decision and then those of its parts.
TEST_F(FallbackStoreTest, AGroupTellsThePartsOfEachLimitInPlaceOfTheStore) {
  std::vector<Decision> told(6);
  const auto take_both = [&] {
    std::ranges::fill(told, Decision{.source = Source::kUnavailable});
    auto asked = requests({{.key = "a"}, {.key = "b", .cost = 4}});
    for (std::size_t i = 0; i < 2; ++i) asked[i].parts = std::span(told).subspan(3 * i, 3);
    return store_->decide_all(asked, kStoreTime);
  };
  const char* const limit = "sliding_log 9/1h & sliding_log 4/1h";
  inner_->lose_all();
  for (const OnFailure policy : {OnFailure::kAllow, OnFailure::kDeny}) {
    wrap({.on_failure = policy}, limit);
    const bool is_allowed = take_both().allowed;
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].source, Source::kPolicy);
      EXPECT_EQ(told[i].allowed, is_allowed);
      EXPECT_EQ(told[i].limit, i % 3 == 1 ? 9 : 4);
    }
  }
  inner_->lose_nothing();
  wrap({}, limit);
  decide_elsewhere({.key = "b"});
  EXPECT_FALSE(decide({.key = "b", .cost = 4}).allowed);
  inner_->lose_all();
  EXPECT_EQ(take_both().binding, 1);
  const std::vector<bool> allows{true, true, true, false, true, false};
  for (std::size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i].allowed, allows[i]) << i;
  EXPECT_EQ(told[3].binding, 1);
  EXPECT_EQ(told[5].retry_after, told[3].retry_after);
}

TEST_F(FallbackStoreTest, CountsDecisionsByLimitAndSource) {
  wrap({}, "token_bucket 2/1h");
  decide_batch({Ask{}, {.cost = 0}, {.cost = 1, .operation = Operation::kRefund}});
  decide_all({Ask{}, {.key = "other"}});
  decide(Ask{});
  decide(Ask{});
  decide_batch({Ask{}, {.key = "other"}});
  decide_all({Ask{}, {.key = "admits, and counts nothing"}});
  const auto held = space_;
  use("fixed_window 1/1h", "another");
  inner_->lose_all();
  submit({Ask{}, Ask{}});
  decide_all({Ask{}, {.key = "other"}});
  using testing::Field;
  const auto count = [](const char* limit, bool allowed, Source source, std::uint64_t decisions) {
    return testing::AllOf(
        Field(&DecisionCount::limit, limit), Field(&DecisionCount::allowed, allowed),
        Field(&DecisionCount::source, source), Field(&DecisionCount::decisions, decisions));
  };
  std::vector<DecisionCount> counts;
  store_->add_counts(counts);
  EXPECT_THAT(counts, testing::UnorderedElementsAre(count("limit", true, Source::kStore, 5),
                                                    count("limit", false, Source::kStore, 2),
                                                    count("limit", false, Source::kCache, 1),
                                                    count("another", true, Source::kLocal, 1),
                                                    count("another", false, Source::kLocal, 2)));
}

// The local states, or the store, have no room for a limit of another kind. Its caller goes on with
// the former one, as a server does.
TEST_F(FallbackStoreTest, ALimitThatCannotBeReplacedKeepsItsStates) {
  wrap({.local_bytes = std::size_t{2} << 20}, "fixed_window 10/1h");
  const auto expect_kept = [this](std::string_view key) {
    decide({.key = key, .cost = 5}, kStart);
    inner_->lose_all();
    decide({.key = key, .cost = 3}, kStart);
    EXPECT_THROW(store_->replace_space(space_, Limit("sliding_log 10/1h", "limit").definition()),
                 StoreError);
    inner_->breaks = nullptr;
    space_ = store_->replace_space(space_, limit_->definition());
    EXPECT_EQ(decide({.key = key, .cost = 0}, kStart).remaining, 2) << key;
    inner_->lose_nothing();
  };
  inner_->breaks = std::make_exception_ptr(StoreError("no room for it"));
  expect_kept("in the store");
  std::vector<std::shared_ptr<Space>> others;
  const auto fill = [&] {
    while (others.size() < 10'000) {
      const std::string name = "other" + std::to_string(others.size());
      others.push_back(store_->open_space(Limit("token_bucket 1/1s", name).definition()));
    }
  };
  EXPECT_THROW(fill(), StoreError);
  expect_kept("here");
  const Limit raised("fixed_window 20/1h", "limit");
  EXPECT_EQ(store_->replace_space(space_, raised.definition()), space_) << "it needs no room";
}

TEST_F(FallbackStoreTest, ALimitThatBecomesOneOfAnotherKindAndBackBeginsFresh) {
  wrap({}, "fixed_window 10/1h");
  decide({.operation = Operation::kBlock, .duration_ns = kHourNs}, kStart);
  const auto former = std::move(limit_);
  for (const char* next : {"sliding_log 10/1h", "fixed_window 10/1h"}) {
    const Limit limit(next, "limit");
    space_ = store_->replace_space(space_, limit.definition());
    limit_ = std::make_unique<Limit>(limit);
  }
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 10);
}

/// What a FallbackStore does with the operations that are not a take.
class FallbackOperationsTest : public FallbackFixture {
 protected:
  Decision charge(std::int64_t units) {
    return decide({.cost = units, .operation = Operation::kCharge});
  }
  Decision take_up_to(std::int64_t units) {
    return decide({.cost = units, .operation = Operation::kTakeUpTo});
  }
  Decision block(std::int64_t duration_ns) {
    return decide({.operation = Operation::kBlock, .duration_ns = duration_ns});
  }
  Decision peek() { return decide({.cost = 0}); }
};

TEST_F(FallbackOperationsTest, HappenToTheLocalStatesWhereTheStoreIsLost) {
  wrap({});
  inner_->lose_all();
  const Decision charged = charge(4);
  EXPECT_TRUE(charged.allowed);
  EXPECT_EQ(charged.source, Source::kLocal);
  EXPECT_EQ(charged.remaining, 6);
  const Decision taken = take_up_to(9);
  EXPECT_EQ(taken.taken, 6);
  EXPECT_EQ(taken.source, Source::kLocal);
  EXPECT_EQ(decide({.cost = 2, .operation = Operation::kRefund}).remaining, 2);
  EXPECT_EQ(block(5 * kHourNs).source, Source::kLocal);
  EXPECT_GT(decide(Ask{}).retry_after, nanoseconds(4 * kHourNs));
  EXPECT_EQ(store_->counters().answered_by_local, 5U);
  decide({.operation = Operation::kReset});
  EXPECT_EQ(peek().remaining, 10);
}

// A unit here is four there: of 42, two are left over when ten have been taken.
TEST_F(FallbackOperationsTest, WhatIsNoWholeUnitIsNotTaken) {
  wrap({.local_share = 4}, "token_bucket 42/42h");
  inner_->lose_all();
  const auto take_up_to_at = [&](Instant now) {
    return decide({.cost = 20, .operation = Operation::kTakeUpTo}, now);
  };
  EXPECT_EQ(take_up_to_at(kStart).taken, 10);
  EXPECT_EQ(take_up_to_at(kStart).taken, 0);
  EXPECT_FALSE(take_up_to_at(kStart).allowed);
  EXPECT_GT(take_up_to_at(kStart).retry_after, nanoseconds(0));
  EXPECT_EQ(take_up_to_at(kStart + 2 * kHourNs - 1).taken, 0);
  // Two more have come back: with the two that were left they are one.
  const Decision one = take_up_to_at(kStart + 2 * kHourNs);
  EXPECT_TRUE(one.allowed);
  EXPECT_EQ(one.taken, 1);
}

TEST_F(FallbackOperationsTest, AreAllowedByPolicy) {
  wrap({.on_failure = OnFailure::kAllow}, "token_bucket 10/1h & fixed_window 7/1h");
  inner_->lose_all();
  Decision allowed{.allowed = true, .source = Source::kPolicy, .binding = 1, .limit = 7};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(decide({.cost = 3}), allowed);
  EXPECT_EQ(charge(7), allowed);
  allowed.taken = 7;
  EXPECT_EQ(take_up_to(7), allowed);
  EXPECT_EQ(store_->counters().answered_by_policy, 22U);
  EXPECT_EQ(store_->counters().answered_by_local, 0U);
}

TEST_F(FallbackOperationsTest, AreDeniedByPolicyWhereTheyTake) {
  wrap({.on_failure = OnFailure::kDeny}, "leaky_bucket 10/1s queue=50");
  inner_->lose_all();
  const Decision denied{.source = Source::kPolicy,
                        .limit = 51,
                        .retry_after = kPolicyWait,
                        .reset_after = kPolicyWait};
  EXPECT_EQ(decide(Ask{}), denied);
  EXPECT_EQ(decide(Ask{}), denied) << "and remembers no such denial";
  EXPECT_EQ(inner_->asked.size(), 2U);
  EXPECT_EQ(take_up_to(7), denied);
  Decision peeked = denied;
  peeked.allowed = true;
  peeked.retry_after = {};
  EXPECT_EQ(peek(), peeked);
  EXPECT_TRUE(decide({.operation = Operation::kRefund}).allowed);
  EXPECT_TRUE(charge(7).allowed);
  EXPECT_TRUE(block(1).allowed);
  EXPECT_TRUE(take_up_to(0).allowed);
}

TEST_F(FallbackOperationsTest, WhatIsDeniedStaysSo) {
  wrap({});
  decide({.cost = 10});
  decide(Ask{});
  charge(1);
  block(kHourNs);
  inner_->asked.clear();
  EXPECT_EQ(decide(Ask{}).source, Source::kCache);
  const Decision none = take_up_to(7);
  EXPECT_FALSE(none.allowed);
  EXPECT_EQ(none.source, Source::kCache);
  EXPECT_EQ(none.taken, 0);
  EXPECT_EQ(none.remaining, 0);
  EXPECT_TRUE(inner_->asked.empty());
}

// What remains in the windows that begin during a block, its denials do not say.
TEST_F(FallbackOperationsTest, ABlockByAnotherProcessStandsForEachCost) {
  struct Row {
    std::vector<Ask> denied;
    std::string limit = "fixed_window 10/10ms";
    std::int64_t share = 1;
    Ask again = {};
  };
  const Ask waits{.patience_ns = 3 * kHourNs};
  for (const Row& row : {Row{{{.cost = 1}, {.cost = 5}}}, Row{{{.cost = 5}}},
                         Row{{{.cost = 5}}, "fixed_window 10/10ms", 4},
                         Row{{{.cost = 3, .operation = Operation::kTakeUpTo}}},
                         Row{{{.patience_ns = 0}}, "leaky_bucket 10/10ms queue=9"},
                         Row{{Ask{}}, "fixed_window 10/10ms & token_bucket 10/10ms"},
                         Row{{Ask{}}, "token_bucket 1/2h borrow=yes"},
                         Row{{waits}, "token_bucket 1/2h", 1, waits}}) {
    SCOPED_TRACE(row.limit);
    inner_ = std::make_shared<ScriptedStore>();
    wrap({.local_share = row.share, .deny_cache = std::chrono::seconds(0)}, row.limit);
    decide_elsewhere({.operation = Operation::kBlock, .duration_ns = kHourNs});
    for (const Ask& ask : row.denied) EXPECT_FALSE(decide(ask).allowed);
    inner_->lose_all();
    let_pass(20 * kMillisecondNs);
    EXPECT_GT(decide(row.again).retry_after, std::chrono::minutes(59));
  }
}

// The window ends sooner by this process's clock.
TEST_F(FallbackOperationsTest, ADenialStandsAsLongAsTheStoreSaid) {
  wrap({}, "fixed_window 10/1d");
  inner_->clock = kStart / kDayNs * kDayNs;
  decide({.cost = 10});
  EXPECT_FALSE(decide(Ask{}).allowed);
  decide({.key = "some left", .cost = 8});
  EXPECT_FALSE(decide({.key = "some left", .cost = 5}).allowed);
  decide({.key = "given back", .cost = 10});
  EXPECT_FALSE(decide({.key = "given back", .cost = 5}).allowed);
  const Instant later = *inner_->clock;
  decide_elsewhere({.key = "given back", .cost = 2, .operation = Operation::kRefund}, later);
  decide({.key = "given back", .cost = 0});
  inner_->lose_all();
  EXPECT_GT(decide(Ask{}).retry_after, std::chrono::hours(23));
  EXPECT_TRUE(decide({.key = "some left", .cost = 2}).allowed);
  EXPECT_TRUE(decide({.key = "given back", .cost = 2}).allowed);
}

TEST_F(FallbackOperationsTest, ADenialOfALargeCostOrAnImpatientCallerIsNoBlock) {
  for (const Ask& denied : {Ask{.cost = 10}, Ask{.patience_ns = 0}}) {
    inner_ = std::make_shared<ScriptedStore>();
    wrap({}, denied.cost == 1 ? "leaky_bucket 10/1s queue=9" : "token_bucket 10/1s");
    decide({.cost = 10});
    EXPECT_FALSE(decide(denied).allowed);
    inner_->lose_all();
    let_pass(110 * kMillisecondNs);
    EXPECT_TRUE(decide(Ask{}).allowed);
  }
}

// Nothing remains, but less is owed than when it was denied.
TEST_F(FallbackOperationsTest, ADenialEndsWhenTheKeyIsFreshAsTheStoreHasSaidSince) {
  wrap({}, "token_bucket 1/1h");
  charge(10);
  EXPECT_GT(decide(Ask{}).retry_after, std::chrono::hours(9));
  EXPECT_EQ(decide({.cost = 8, .operation = Operation::kRefund}).remaining, 0);
  inner_->lose_all();
  EXPECT_LE(decide(Ask{}).retry_after, std::chrono::hours(2));
}

TEST_F(FallbackOperationsTest, ADenialIsNoneUnderOtherNumbers) {
  wrap({}, "fixed_window 10/1000d");
  decide({.cost = 10});
  EXPECT_FALSE(decide(Ask{}).allowed);
  const auto held = space_;
  use("fixed_window 100/1000d");
  inner_->lose_all();
  EXPECT_EQ(decide(Ask{}).remaining, 89);
}

TEST_F(FallbackOperationsTest, AResetEndsABlockJustBefore) {
  wrap({});
  block(kHourNs);
  decide({.operation = Operation::kReset});
  inner_->lose_all();
  EXPECT_EQ(peek().remaining, 10);
}

TEST_F(FallbackOperationsTest, ADenialOfWhatRemainsIsOneOfAUnit) {
  wrap({});
  decide({.cost = 10});
  EXPECT_FALSE(take_up_to(5).allowed);
  EXPECT_EQ(decide(Ask{}).source, Source::kCache);
}

// The store never had them.
TEST_F(FallbackOperationsTest, ReturnsToWhoGave) {
  wrap({});
  decide({.cost = 6}, kStart);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 3}, kStart).source, Source::kLocal);
  inner_->lose_nothing();
  inner_->asked.clear();
  const Ask refund{.cost = 3, .operation = Operation::kRefund, .giver = Source::kLocal};
  const Decision given = decide(refund, kStart);
  EXPECT_EQ(given.source, Source::kLocal);
  EXPECT_EQ(given.remaining, 4);
  EXPECT_TRUE(decide({.cost = 3, .operation = Operation::kRefund, .giver = Source::kPolicy}, kStart)
                  .allowed);
  EXPECT_TRUE(inner_->asked.empty());
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 4);
  EXPECT_EQ(decide_elsewhere({.cost = 0}, kStart).remaining, 4) << "nothing is charged back";
  EXPECT_EQ(store_->counters().unanswered, 1U);
}

TEST_F(FallbackOperationsTest, ASpaceThatOneHoldsGivesWay) {
  wrap({}, "fixed_window 5/1h");
  decide({.cost = 5});
  decide(Ask{});
  const Limit other("sliding_log 7/1h", "limit");
  const auto attachment = space_->attachment<int>();
  const auto fresh = store_->replace_space(space_, other.definition());
  ASSERT_NE(fresh, space_);
  EXPECT_EQ(fresh->attachment<int>(), attachment);
  space_ = fresh;
  *limit_ = other;
  EXPECT_EQ(decide({.cost = 3}).remaining, 4) << "its keys are fresh";
  inner_->lose_all();
  EXPECT_EQ(peek().remaining, 4) << "here, too";
  EXPECT_EQ(store_->open_space(other.definition()), space_);
}

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
  Decision reclaim(PermitId permit) {
    return decide({.operation = Operation::kRelease, .permit = permit, .is_reclaim = true}, kStart);
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
  EXPECT_EQ(store_->counters().answered_by_cache, 0U);
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

TEST_F(FallbackPermitsTest, LocalStatesMirrorWhatIsRenewedAndReleased) {
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
  decide_elsewhere({.operation = Operation::kReset}, kStart);
  EXPECT_EQ(renew(1).retry_after, kNever);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 1);
}

TEST_F(FallbackPermitsTest, WhatTheStoreGaveIsHeldHereWhateverIsKnownOfOthers) {
  wrap({}, "concurrency 1");
  acquire(1);
  // Another process has reset it.
  decide_elsewhere({.operation = Operation::kReset}, kStart);
  EXPECT_TRUE(acquire(2).allowed);
  release(1);
  inner_->lose_all();
  EXPECT_FALSE(acquire(3).allowed);
}

TEST_F(FallbackPermitsTest, WhatTheStoreRenewsIsHeldHere) {
  wrap({}, "concurrency 1");
  decide_elsewhere({.permit = 1}, kStart);
  EXPECT_TRUE(renew(1).allowed);
  inner_->lose_all();
  EXPECT_FALSE(acquire(2).allowed);
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
  EXPECT_TRUE(decide_elsewhere({.permit = 1}, kStart).allowed);
  const Decision released = reclaim(1);
  EXPECT_TRUE(released.allowed);
  EXPECT_EQ(released.source, Source::kStore);
  EXPECT_TRUE(renew(1, Source::kLocal).allowed) << "it is held here";

  const std::uint64_t answered_by_local = store_->counters().answered_by_local;
  inner_->lose_all();
  EXPECT_THROW(reclaim(1), StoreError);
  EXPECT_EQ(store_->counters().answered_by_local, answered_by_local);
  EXPECT_TRUE(renew(1, Source::kLocal).allowed);
}

// The caller of such an acquisition then releases the permit in the store.
TEST_F(FallbackPermitsTest, AnAnswerSaysWhetherTheStoreMayHaveGivenOne) {
  for (const OnFailure policy : {OnFailure::kLocal, OnFailure::kAllow, OnFailure::kDeny}) {
    wrap({.on_failure = policy}, "concurrency 1");
    for (const std::int64_t taken : {std::int64_t{0}, kTakenUnknown}) {
      inner_->says = [&](const Request&) {
        return Decision{.source = Source::kUnavailable, .taken = taken};
      };
      EXPECT_EQ(acquire(1).taken, taken);
      EXPECT_EQ(decide({.cost = 0}, kStart).taken, 0) << "a peek takes none";
      EXPECT_EQ(renew(1).taken, 0);
    }
  }
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
  const auto held = space_;
  const auto former = std::move(limit_);
  use("concurrency 10");
  EXPECT_TRUE(renew(1).allowed) << "by other numbers, too";
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 0);
  EXPECT_TRUE(release(1).allowed);
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

TEST_F(FallbackStoreTest, LocalStatesAreBounded) {
  wrap({.local_bytes = std::size_t{2} << 20}, "sliding_log 5/1h");
  inner_->lose_all();
  constexpr int kKeys = 60'000;
  constexpr int kStep = 20;  // One in so many is looked for.
  const auto peek = [&](int i) { return decide({.key = std::to_string(i), .cost = 0}, kStart); };
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(decide({.key = std::to_string(i)}, kStart).source, Source::kLocal);
  }
  int known = 0;
  for (int i = 0; i < kKeys; i += kStep) known += peek(i).remaining == 4 ? 1 : 0;
  EXPECT_GT(known, 1'000 / kStep);
  // None of them can take less than 32 of a mebibyte and a third.
  EXPECT_LT(known, 45'000 / kStep);
}

}  // namespace
}  // namespace sluice
