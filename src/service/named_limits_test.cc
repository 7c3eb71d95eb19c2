#include "service/named_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fallback/failure_policy.h"
#include "service/server_context.h"
#include "stores/memory/memory_store.h"
#include "testing/ask_batch.h"
#include "testing/served_store.h"

namespace sluice {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Kind = LimitOverride::Kind;

/// Keeps the decisions instead of writing them. For a missing decision it keeps the error.
class KeptReplies final : public ReplyWriter {
 public:
  void write_decisions(std::span<const ReplySlot>, std::span<const Decision> written,
                       std::string&) override {
    decisions.insert(decisions.end(), written.begin(), written.end());
  }
  void write_unavailable(const ReplySlot&, std::string_view why, std::string&) override {
    errors.emplace_back(why);
  }
  void write_together(const ReplySlot&, const Decision& whole, std::span<const Decision> all,
                      std::string&) override {
    decisions.push_back(whole);
    parts.assign(all.begin(), all.end());
  }
  void write_refused(const ReplySlot&, std::string_view why, std::string&) override {
    errors.emplace_back("refused: " + std::string(why));
  }

  std::vector<Decision> decisions;
  std::vector<Decision> parts;
  std::vector<std::string> errors;
};

LimitOverride to_limit(std::string key, std::string_view expression, std::string_view name) {
  return {std::move(key), Kind::kLimit, Limit(expression, name)};
}

ServedLimits served() {
  NamedLimit api(Limit("token_bucket 3/1h", "api"));
  api.overrides = {to_limit("customer:7", "token_bucket 9/1h", "api"),
                   to_limit("customer:8", "fixed_window 6/1h & sliding_log 8/1h", "api"),
                   {"internal:*", Kind::kAllowAll},
                   {"banned:*", Kind::kDeny},
                   {"internal:bad", Kind::kDeny}};
  NamedLimit trial(Limit("token_bucket 2/1h", "trial"));
  trial.dry_run = true;
  trial.overrides = {{"banned:*", Kind::kDeny}};
  NamedLimit jobs(Limit("concurrency 1 lease=2m", "jobs"));
  jobs.overrides = {to_limit("big", "concurrency 2 lease=5m", "jobs"),
                    {"free", Kind::kAllowAll},
                    {"banned", Kind::kDeny}};
  NamedLimit tried_jobs(Limit("concurrency 1 lease=2m", "tried_jobs"));
  tried_jobs.dry_run = true;
  ServedLimits all;
  all.named = {api, trial, jobs, tried_jobs, NamedLimit(Limit("token_bucket 5/1h", "login"))};
  return all;
}

/// A claim on a named limit.
struct Asked {
  std::string_view limit;
  std::string_view key;
  std::int64_t cost = 1;
  Operation operation = Operation::kTake;
};

/// The only thread of a server, over a store that answers at once, or (GetParam()) later.
class NamedLimitsTest : public testing::TestWithParam<bool> {
 protected:
  ThreadContext& thread() { return context->thread(0); }

  void add(const Asked& asked, PermitId permit = 0, Source giver = Source::kStore) {
    thread().batch.add(thread().limits.find(asked.limit),
                       {.key = asked.key,
                        .operation = asked.operation,
                        .cost = asked.cost,
                        .duration_ns = 1'000'000'000,
                        .permit = permit,
                        .giver = giver},
                       {});
  }

  /// Makes the store decide the added requests, and returns the last decision.
  Decision ask() {
    ask_batch(thread(), *store, replies);
    return replies.decisions.empty() ? Decision() : replies.decisions.back();
  }

  Decision ask(const Asked& asked) {
    add(asked);
    return ask();
  }
  Decision ask_together(std::initializer_list<Asked> claims) {
    for (const Asked& claim : claims) add(claim);
    thread().batch.ask_together();
    return ask();
  }
  std::int64_t remaining(std::string_view limit, std::string_view key) {
    return ask({limit, key, 0}).remaining;
  }

  std::shared_ptr<ScriptedStore> store = GetParam() ? later_store() : still_store();
  std::shared_ptr<ServerContext> context = std::make_shared<ServerContext>(store, served(), 1);
  KeptReplies replies;
};

INSTANTIATE_TEST_SUITE_P(StoresThatAnswer, NamedLimitsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Later" : "AtOnce"; });

TEST_P(NamedLimitsTest, AnOverrideGivesItsKeyOtherNumbers) {
  EXPECT_EQ(ask({"api", "customer:6"}).limit, 3);
  EXPECT_EQ(ask({"api", "customer:7"}).limit, 9);
  EXPECT_EQ(remaining("api", "customer:7"), 8);
  // Also an override whose states are of another kind.
  EXPECT_EQ(ask({"api", "customer:8"}).limit, 6);
  EXPECT_EQ(remaining("api", "customer:8"), 5);
  EXPECT_EQ(remaining("api", "customer:6"), 2);
  for (const Operation operation : {Operation::kReset, Operation::kCharge, Operation::kRefund}) {
    ask({"api", "customer:7", 1, operation});
  }
  EXPECT_EQ(remaining("api", "customer:7"), 9);
}

TEST_P(NamedLimitsTest, AnUnlimitedKeyIsAllowedWithoutTheStore) {
  const Decision decision = ask({"api", "internal:cron", 1'000'000});
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.source, Source::kOverride);
  EXPECT_EQ(decision.limit, kUnlimited);
  EXPECT_EQ(decision.remaining, kUnlimited);
  EXPECT_EQ(decision.retry_after.count(), 0);
  EXPECT_EQ(ask({"api", "internal:cron", 12, Operation::kTakeUpTo}).taken, 12);
  EXPECT_TRUE(ask({"api", "internal:cron", 5, Operation::kCharge}).allowed);
  EXPECT_THAT(store->asked, IsEmpty());
}

TEST_P(NamedLimitsTest, ADeniedKeyIsDeniedWithoutTheStore) {
  const Decision decision = ask({"api", "banned:eve"});
  EXPECT_FALSE(decision.allowed);
  EXPECT_EQ(decision.source, Source::kOverride);
  EXPECT_EQ(decision.limit, 0);
  EXPECT_EQ(decision.remaining, 0);
  EXPECT_EQ(decision.retry_after, kNever);
  EXPECT_FALSE(ask({"api", "internal:bad", 3, Operation::kTakeUpTo}).allowed);
  // A peek takes nothing, so it is not denied.
  EXPECT_TRUE(ask({"api", "banned:eve", 0}).allowed);
  EXPECT_THAT(store->asked, IsEmpty());
  EXPECT_THAT(context->outcomes(),
              ElementsAre(OutcomeCount{"api", Outcome::kDenied, Source::kOverride, 2}));
}

TEST_P(NamedLimitsTest, AResetReachesTheStoreUnderEveryOverride) {
  ask({"api", "banned:eve", 1, Operation::kReset});
  ask({"api", "internal:cron", 1, Operation::kReset});
  EXPECT_THAT(store->asked, SizeIs(2));
}

TEST_P(NamedLimitsTest, AnswersOfOverridesKeepTheirPlacesAmongOthers) {
  add({"api", "banned:eve"});
  add({"api", "a"});
  add({"api", "internal:cron"});
  add({"login", "b"});
  add({"api", "customer:7"});
  add({"api", "banned:bob"});
  ask();
  std::vector<std::int64_t> limits;
  for (const Decision& decision : replies.decisions) limits.push_back(decision.limit);
  EXPECT_THAT(limits, ElementsAre(0, 3, kUnlimited, 5, 9, 0));
}

TEST_P(NamedLimitsTest, ADryRunJudgesAndCountsButNeverDenies) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(ask({"trial", "a"}).would_deny);
  }
  const Decision decision = ask({"trial", "a"});
  EXPECT_TRUE(decision.allowed);
  EXPECT_TRUE(decision.would_deny);
  EXPECT_EQ(decision.limit, 2);
  EXPECT_EQ(decision.remaining, 0);
  EXPECT_EQ(decision.retry_after.count(), 0);
  EXPECT_EQ(giver_of(decision), Source::kOverride);
  const Decision banned = ask({"trial", "banned:eve"});
  EXPECT_TRUE(banned.allowed && banned.would_deny);
  const Decision taken = ask({"trial", "b", 5, Operation::kTakeUpTo});
  EXPECT_TRUE(taken.allowed && taken.would_deny);
  EXPECT_EQ(taken.taken, 5);
  EXPECT_FALSE(ask({"trial", "b", 0}).would_deny);
  EXPECT_THAT(context->limits(), Contains(LimitCount{"trial", "token_bucket 2/1h", 5, 0, 3}));
  EXPECT_THAT(context->outcomes(),
              ElementsAre(OutcomeCount{"trial", Outcome::kAllowed, Source::kStore, 2},
                          OutcomeCount{"trial", Outcome::kWouldDeny, Source::kStore, 2},
                          OutcomeCount{"trial", Outcome::kWouldDeny, Source::kOverride, 1}));
}

TEST_P(NamedLimitsTest, ADryRunSaysThatTheStoreIsAway) {
  take_away(*store);
  ask({"trial", "a"});
  EXPECT_THAT(replies.errors, ElementsAre("the store is away"));
}

TEST_P(NamedLimitsTest, TheStateOfADryRunIsNotThatOfTheNextBatch) {
  for (int i = 0; i < 3; ++i) ask({"trial", "a"});
  EXPECT_TRUE(replies.decisions.back().would_deny);
  EXPECT_FALSE(ask({"login", "a"}).would_deny);
  EXPECT_FALSE(ask({"login", "a", 9}).allowed);
}

TEST_P(NamedLimitsTest, PermitsFollowTheOverrides) {
  const auto acquire = [&](std::string_view limit, std::string_view key, PermitId permit) {
    add({limit, key}, permit);
    return ask();
  };
  const auto release = [&](std::string_view limit, std::string_view key, PermitId permit,
                           Source giver) {
    add({limit, key, 1, Operation::kRelease}, permit, giver);
    return ask().allowed;
  };
  EXPECT_TRUE(acquire("jobs", "big", 1).allowed);
  EXPECT_TRUE(acquire("jobs", "big", 2).allowed);
  EXPECT_FALSE(acquire("jobs", "big", 3).allowed);
  EXPECT_TRUE(acquire("jobs", "small", 4).allowed);
  EXPECT_FALSE(acquire("jobs", "small", 5).allowed);
  EXPECT_FALSE(acquire("jobs", "banned", 6).allowed);
  const Decision free = acquire("jobs", "free", 7);
  EXPECT_EQ(giver_of(free), Source::kOverride);
  EXPECT_TRUE(release("jobs", "free", 7, Source::kOverride));
  EXPECT_TRUE(release("jobs", "small", 7, Source::kFull)) << "of full=allow, which no store knows";
  // Not lost, though the key is unlimited now: the store has it.
  EXPECT_FALSE(release("jobs", "free", 7, Source::kStore));
  EXPECT_TRUE(acquire("tried_jobs", "a", 8).allowed);
  const Decision tried = acquire("tried_jobs", "a", 9);
  EXPECT_TRUE(tried.allowed && tried.would_deny);
  EXPECT_TRUE(release("tried_jobs", "a", 9, giver_of(tried)));
  EXPECT_TRUE(release("tried_jobs", "a", 8, Source::kStore));
  EXPECT_FALSE(acquire("tried_jobs", "a", 10).would_deny);
  const auto& found = thread().limits.find("jobs");
  EXPECT_EQ(found->bound_for("big").limit.expression(), "concurrency 2 lease=5m");
  EXPECT_EQ(found->bound_for("small").limit.expression(), "concurrency 1 lease=2m");
}

TEST_P(NamedLimitsTest, TogetherAnUnlimitedKeyLeavesTheAnswerToTheOthers) {
  const Decision whole = ask_together({{"api", "internal:cron"}, {"login", "a"}, {"api", "b"}});
  EXPECT_TRUE(whole.allowed);
  EXPECT_EQ(whole.source, Source::kStore);
  EXPECT_EQ(whole.binding, 2);
  EXPECT_EQ(whole.remaining, 2);
  ASSERT_THAT(replies.parts, SizeIs(3));
  EXPECT_EQ(replies.parts[0].limit, kUnlimited);
  EXPECT_EQ(replies.parts[1].remaining, 4);
  const Decision denied = ask_together({{"api", "internal:cron"}, {"api", "b", 3}});
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.binding, 1);
  const Decision free = ask_together({{"api", "internal:cron"}, {"api", "internal:other"}});
  EXPECT_TRUE(free.allowed);
  EXPECT_EQ(free.source, Source::kOverride);
}

TEST_P(NamedLimitsTest, TogetherADeniedKeyDeniesAllAndNothingIsCharged) {
  ask({"login", "a", 4});
  const Decision whole = ask_together({{"login", "a", 3}, {"api", "b"}, {"api", "banned:eve"}});
  EXPECT_FALSE(whole.allowed);
  EXPECT_EQ(whole.source, Source::kOverride);
  EXPECT_EQ(whole.binding, 2);
  EXPECT_EQ(whole.retry_after, kNever);
  ASSERT_THAT(replies.parts, SizeIs(3));
  EXPECT_FALSE(replies.parts[0].allowed);
  EXPECT_EQ(replies.parts[0].remaining, 1);
  EXPECT_TRUE(replies.parts[1].allowed);
  EXPECT_EQ(remaining("login", "a"), 1);
  EXPECT_EQ(remaining("api", "b"), 3);
}

TEST_P(NamedLimitsTest, TogetherADryRunThatDeniesDoesNotMakeTheOthersFail) {
  EXPECT_FALSE(ask_together({{"trial", "a"}, {"login", "a"}}).would_deny);
  EXPECT_EQ(remaining("trial", "a"), 1);
  const Decision whole = ask_together({{"trial", "a", 2}, {"login", "a"}});
  EXPECT_TRUE(whole.allowed);
  EXPECT_TRUE(whole.would_deny);
  EXPECT_EQ(whole.binding, 1);
  EXPECT_EQ(whole.remaining, 3);
  ASSERT_THAT(replies.parts, SizeIs(2));
  EXPECT_TRUE(replies.parts[0].allowed && replies.parts[0].would_deny);
  EXPECT_FALSE(replies.parts[1].would_deny);
  EXPECT_EQ(remaining("trial", "a"), 1);
  EXPECT_EQ(remaining("login", "a"), 3);
  // Only limits in a dry run: nothing can deny.
  EXPECT_TRUE(ask_together({{"trial", "a", 2}, {"trial", "c", 3}}).would_deny);
  EXPECT_THAT(context->limits(), Contains(LimitCount{"trial", "token_bucket 2/1h", 4, 0, 3}));
  EXPECT_THAT(context->limits(), Contains(LimitCount{"login", "token_bucket 5/1h", 2, 0, 0}));
}

TEST_P(NamedLimitsTest, TogetherARealDenialChargesNoDryRun) {
  const Decision whole = ask_together({{"trial", "a"}, {"login", "a", 6}});
  EXPECT_FALSE(whole.allowed);
  EXPECT_EQ(whole.binding, 1);
  EXPECT_EQ(remaining("trial", "a"), 2);
  EXPECT_EQ(remaining("login", "a"), 5);
}

TEST_P(NamedLimitsTest, TogetherADenialIsAmongTheKeysDeniedMost) {
  ask_together({{"trial", "a", 3}, {"login", "b", 6}});
  ask_together({{"api", "internal:cron"}, {"login", "b", 7}, {"login", "c"}});
  ask_together({{"api", "banned:eve"}, {"login", "d"}});
  EXPECT_THAT(context->top("login", 9), ElementsAre(KeyCount{"b", 2, 0}));
  EXPECT_THAT(context->top("trial", 9), IsEmpty());
  EXPECT_THAT(context->top("api", 9), IsEmpty());
  // Of each limit that denies, although the numbers of the answer are those of one.
  ask_together({{"login", "b", 6}, {"api", "e", 4}});
  EXPECT_THAT(context->top("login", 9), ElementsAre(KeyCount{"b", 3, 0}));
  EXPECT_THAT(context->top("api", 9), ElementsAre(KeyCount{"e", 1, 0}));
}

TEST_P(NamedLimitsTest, TogetherEachLimitCountsItsOwnDecision) {
  ask_together({{"login", "a", 6}, {"api", "b"}});
  ask_together({{"login", "a"}, {"api", "banned:eve"}});
  EXPECT_THAT(context->outcomes(),
              ElementsAre(OutcomeCount{"api", Outcome::kDenied, Source::kOverride, 1},
                          OutcomeCount{"login", Outcome::kDenied, Source::kStore, 1}));
  // The override is not that of the limit whose numbers are those of the answer.
  ask_together({{"login", "a", 6}, {"api", "banned:eve"}});
  EXPECT_THAT(context->outcomes(),
              ElementsAre(OutcomeCount{"api", Outcome::kDenied, Source::kOverride, 2},
                          OutcomeCount{"login", Outcome::kDenied, Source::kStore, 2}));
  ask_together({{"login", "a"}, {"api", "b"}});
  take_away(*store);
  ask_together({{"login", "a"}, {"api", "b"}});
  for (const std::string limit : {"api", "login"}) {
    EXPECT_THAT(context->outcomes(),
                Contains(OutcomeCount{limit, Outcome::kAllowed, Source::kStore, 1}));
    EXPECT_THAT(context->outcomes(),
                Contains(OutcomeCount{limit, Outcome::kDenied, Source::kUnavailable, 1}));
  }
}

TEST_P(NamedLimitsTest, TogetherSaysWhatGoesWrong) {
  take_away(*store);
  ask_together({{"trial", "a"}, {"login", "a"}});
  EXPECT_THAT(replies.errors, ElementsAre("the store is away"));
  replies.errors.clear();
  store->lose_nothing();
  ask_together({{"trial", "a"}, {"api", "internal:cron"}, {"trial", "a"}});
  ASSERT_THAT(replies.errors, SizeIs(1));
  EXPECT_TRUE(replies.errors[0].starts_with("refused: ")) << replies.errors[0];
}

// Wherever the claim stands that an override denies.
TEST_P(NamedLimitsTest, TogetherADeniedKeyDoesNotHideThatTheStoreIsAway) {
  take_away(*store);
  ask_together({{"api", "banned:eve"}, {"login", "a"}});
  ask_together({{"login", "a"}, {"api", "banned:eve"}});
  EXPECT_THAT(replies.errors, ElementsAre("the store is away", "the store is away"));
  EXPECT_THAT(replies.decisions, IsEmpty());
}

TEST_P(NamedLimitsTest, TogetherWithADeniedKeyAClaimAboveItsLimitNeverPasses) {
  const std::string_view lending = "token_bucket 5/1h borrow=yes";
  ask_together({{"login", "a", 6}, {"login", "b", 5}, {lending, "c", 6}, {"api", "banned:eve"}});
  ASSERT_THAT(replies.parts, SizeIs(4));
  EXPECT_FALSE(replies.parts[0].allowed);
  EXPECT_EQ(replies.parts[0].retry_after, kNever);
  EXPECT_TRUE(replies.parts[1].allowed);
  EXPECT_TRUE(replies.parts[2].allowed);
}

// It has no numbers from which another decision could be derived.
TEST_P(NamedLimitsTest, TogetherWithADeniedKeyTheFailurePolicyDecidesForTheOthers) {
  for (const OnFailure policy : {OnFailure::kAllow, OnFailure::kDeny}) {
    store->says = [&](const Request& request) { return policy_decision(policy, {&request, 1}); };
    ask_together({{"login", "a"}, {"login", "b", 0}, {"api", "banned:eve"}});
    ASSERT_THAT(replies.parts, SizeIs(3));
    EXPECT_EQ(replies.parts[0].source, Source::kPolicy);
    EXPECT_EQ(replies.parts[0].allowed, policy == OnFailure::kAllow);
    EXPECT_EQ(replies.parts[0].retry_after, kPolicyWait * (policy == OnFailure::kAllow ? 0 : 1));
    EXPECT_TRUE(replies.parts[1].allowed) << "a peek";
    EXPECT_FALSE(replies.parts[2].allowed);
  }
}

TEST_P(NamedLimitsTest, OneClaimAskedTogetherHasTheRulesOfItsLimit) {
  EXPECT_EQ(ask_together({{"api", "internal:cron"}}).limit, kUnlimited);
  EXPECT_THAT(replies.parts, SizeIs(1));
  const Decision parts = ask_together({{"api", "customer:8"}});
  EXPECT_TRUE(parts.allowed);
  EXPECT_THAT(replies.parts, SizeIs(2));
  const Decision tried = ask_together({{"trial", "z", 3}});
  EXPECT_TRUE(tried.allowed && tried.would_deny);
  ASSERT_THAT(replies.parts, SizeIs(1));
  EXPECT_TRUE(replies.parts[0].would_deny);
}

TEST_P(NamedLimitsTest, AnOverrideKeepsItsStatesBesideAnyOthers) {
  ask({"api", "customer:8", 5});
  ask({"api", "customer:7", 8});
  ServedLimits changed = served();
  auto& overrides = changed.named[0].overrides;
  overrides[1] = to_limit("customer:8", "fixed_window 7/1h & sliding_log 9/1h", "api");
  // States of the same algorithms that the override cannot read.
  overrides.insert(overrides.begin(), to_limit("a", "fixed_window 4/1m & sliding_log 4/1h", "api"));
  context->replace_limits(changed);
  thread().begin_batch();
  EXPECT_EQ(remaining("api", "customer:8"), 2);
  EXPECT_EQ(remaining("api", "customer:7"), 1);
}

// A full memory store keeps a key that denies by its override, whose limit has two parts.
TEST(NamedLimits, AKeyThatItsOverrideDeniesIsNotForgotten) {
  NamedLimit api(Limit("fixed_window 1000/1h & fixed_window 2000/1d", "api"));
  api.overrides = {to_limit("trial:*", "fixed_window 1000/1h & fixed_window 1/1d", "api")};
  ServedLimits all;
  all.named = {api};
  MemoryStore store({.max_bytes = MemoryStore::kLeastBytes, .table = {}});
  LimitHistory history;
  const NamedLimits limits(store, all, history);
  const RegisteredLimit& served_api = **limits.find("api");
  const Instant now = store.now();
  const auto take = [&](const std::string& key, std::int64_t cost) {
    Request request = served_api.bound_for(key).request(key);
    request.cost = cost;
    return store.decide_one(request, now);
  };
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(take("trial:" + std::to_string(i), 1).allowed);
  for (int i = 0; i < 60'000; ++i) take("customer:" + std::to_string(i), 2);
  EXPECT_GT(store.counters().evicted, 0U);
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(take("trial:" + std::to_string(i), 1).allowed) << i;
  }
}

}  // namespace
}  // namespace sluice
