#include "fallback/last_answers.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/key_hash.h"
#include "stores/memory/memory_store.h"
#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;

constexpr KeyName kName{.space = 1, .key = {.high = 1, .low = 2}};
constexpr LastAnswers::Options kOptions{.most_bytes = std::size_t{2} << 20,
                                        .hold = std::chrono::hours(1)};
constexpr std::size_t kMostKeys = kOptions.most_bytes / 2 / 32;
constexpr std::size_t kMostDenied = kOptions.most_bytes / 2 / 64;

struct Ask {
  std::string_view key = "k";
  std::int64_t cost = 1;
  std::int64_t patience_ns = kDefaultPatience;
  std::uint64_t space = 1;
};

class LastAnswersTest : public testing::Test {
 protected:
  Request request(const Ask& ask) const {
    return {.limit = &limit_->definition(),
            .key = ask.key,
            .cost = ask.cost,
            .patience_ns = ask.patience_ns};
  }

  KeyName name(const Ask& ask) const {
    return {.space = ask.space, .key = hash_key(ask.key, secret_)};
  }

  std::optional<Decision> find(const Ask& ask, Instant now = kStart) {
    Decision decision;
    if (!answers_.denies(name(ask), request(ask), now, decision)) return std::nullopt;
    return decision;
  }

  void tell(const Ask& ask, const Decision& told, Instant sent = kStart) {
    answers_.record(name(ask), request(ask), told, sent, sent);
  }
  // Denied, what was sent at kStart, with 4 of 10 remaining, for 100 ns.
  void deny(const Ask& ask, nanoseconds retry_after = nanoseconds(100)) {
    tell(
        ask,
        {.limit = 10, .remaining = 4, .retry_after = retry_after, .reset_after = nanoseconds(500)});
  }

  LastAnswers answers_{kOptions};
  const HashSecret secret_ = HashSecret::random();
  const Limit low_{"token_bucket 10/1h"};
  const Limit high_{"token_bucket 11/1h"};
  const Limit* limit_ = &low_;
};

TEST_F(LastAnswersTest, ADenialIsUsedForAWhile) {
  LastAnswers answers({.most_bytes = kOptions.most_bytes, .hold = nanoseconds(30)});
  answers.record(kName, request({}), {.limit = 10, .retry_after = nanoseconds(100)}, kStart,
                 kStart + 5);
  Decision decision;
  EXPECT_TRUE(answers.denies(kName, request({}), kStart + 29, decision));
  EXPECT_EQ(decision.retry_after, nanoseconds(71));
  EXPECT_FALSE(answers.denies(kName, request({}), kStart + 30, decision));
  Request waiting = request({});
  waiting.most_denial_age_ns = 10;
  EXPECT_TRUE(answers.denies(kName, waiting, kStart + 9, decision));
  EXPECT_FALSE(answers.denies(kName, waiting, kStart + 10, decision));
  EXPECT_EQ(answers.take_new(kName, low_.definition()).denied.until, kStart + 100);
}

TEST_F(LastAnswersTest, WhatRemainsIsLessThanWhatIsAsked) {
  deny({.cost = 2, .patience_ns = 7});
  EXPECT_EQ(find({.cost = 2, .patience_ns = 7})->remaining, 1);
  EXPECT_EQ(find({.cost = 9, .patience_ns = 7})->remaining, 4);
}

TEST_F(LastAnswersTest, TellsKeysAndSpacesApart) {
  deny({});
  EXPECT_FALSE(find({.key = "other"}));
  EXPECT_FALSE(find({.key = ""}));
  EXPECT_FALSE(find({.space = 2}));
}

TEST_F(LastAnswersTest, RemembersTheLatestDenial) {
  deny({.cost = 5}, nanoseconds(1'000));
  deny({.cost = 2}, nanoseconds(10));
  EXPECT_EQ(find({.cost = 5})->retry_after, nanoseconds(10));
  EXPECT_EQ(find({.cost = 2})->retry_after, nanoseconds(10));
}

// So callers that wait and those that do not need no denials of their own. Where it does make a
// difference, NeverDeniesWhatTheStoreWouldAdmit sees it.
TEST_F(LastAnswersTest, ADenialHoldsForEachPatienceThatMakesNoDifference) {
  const Limit windows("fixed_window 10/1h & sliding_log 9/1h");
  const Limit bucket("token_bucket 10/1h");
  for (const auto& [limit, patience_ns] : {std::pair(&windows, 7), std::pair(&bucket, 0)}) {
    limit_ = limit;
    deny({.patience_ns = patience_ns});
    EXPECT_TRUE(find({})) << limit->expression();
    deny({});
    EXPECT_TRUE(find({.patience_ns = patience_ns})) << limit->expression();
  }
}

// What it is answered then is younger than what was given back.
TEST_F(LastAnswersTest, AKeyBesideOneThatWasGivenUnitsBackIsAskedAboutAtTheExactTime) {
  const KeyName beside{.space = 2, .key = kName.key};
  for (const bool is_reset : {false, true}) {
    LastAnswers answers(kOptions);
    answers.ask_again(kName, kStart, is_reset);
    EXPECT_TRUE(answers.was_denied(beside, kStart));
    EXPECT_FALSE(answers.was_denied(beside, kStart + 1));
  }
}

TEST_F(LastAnswersTest, RemembersNoDenialWithoutEnd) {
  deny({}, kNever);
  EXPECT_FALSE(find({}));
  deny({}, kNever - nanoseconds(1));
  EXPECT_EQ(find({})->retry_after, nanoseconds(kMaxInt64 - kStart));
}

TEST_F(LastAnswersTest, ResetIsNeverBeforeRetry) {
  deny({}, nanoseconds(900));
  EXPECT_EQ(find({}, kStart + 100)->reset_after, nanoseconds(800));
}

TEST_F(LastAnswersTest, ADenialEndsWhenATakeIsAdmitted) {
  deny({.cost = 3});
  const auto is_over_after = [&](const Ask& ask) {
    tell(ask, {.allowed = true, .limit = 10, .remaining = 1}, kStart + 1);
    return !find({.cost = 3}, kStart + 2);
  };
  EXPECT_FALSE(is_over_after({.cost = 0})) << "a peek";
  EXPECT_FALSE(is_over_after({.key = "other", .cost = 3}));
  EXPECT_EQ(find({.cost = 3}, kStart + 2)->remaining, 1) << "what was told last";
  EXPECT_TRUE(is_over_after({.cost = 2})) << "of any cost";
  deny({.cost = 3});
  limit_ = &high_;
  tell({.cost = 1}, {.allowed = true, .limit = 11, .remaining = 1}, kStart + 1);
  limit_ = &low_;
  EXPECT_FALSE(find({.cost = 3}, kStart + 2)) << "under other numbers";
}

TEST_F(LastAnswersTest, ADenialEndsWhenAsMuchRemains) {
  deny({.cost = 5});
  tell({.cost = 0}, {.allowed = true, .limit = 10, .remaining = 4});
  EXPECT_TRUE(find({.cost = 5}, kStart + 1));
  tell({.cost = 0}, {.allowed = true, .limit = 10, .remaining = 5});
  EXPECT_FALSE(find({.cost = 5}, kStart + 1));
}

// What remains may be admitted only with a delay, and a caller may not be so patient.
TEST_F(LastAnswersTest, ADenialOfACallerWithAPatienceEndsWhenAsMuchRemainsUnlessItWasDelayed) {
  for (const bool delays : {false, true}) {
    const Limit limit(delays ? "leaky_bucket 10/1h queue=9"
                             : "token_bucket 10/1h & fixed_window 9/1h");
    limit_ = &limit;
    deny({.patience_ns = 0});
    tell({.cost = 0}, {.allowed = true, .limit = 10, .remaining = 5});
    EXPECT_EQ(find({.patience_ns = 0}, kStart + 1).has_value(), delays);
  }
  limit_ = &low_;
}

// Without the decisions of parts, the latest that is known of it is the denial.
TEST_F(LastAnswersTest, ADenialHasTheNumbersOfThePartThatDenied) {
  const Limit both("fixed_window 20/10s & fixed_window 40/1h");
  using Keeps = LastAnswers::Keeps;
  for (const Keeps keeps : {Keeps::kAll, Keeps::kDenials}) {
    LastAnswers answers({.keeps = keeps, .most_bytes = kOptions.most_bytes, .hold = kOptions.hold});
    const nanoseconds wait(100);
    Request asked{.limit = &both.definition(), .key = "k", .cost = 8};
    const Decision denial{
        .binding = 1, .limit = 40, .remaining = 2, .retry_after = wait, .reset_after = 3 * wait};
    answers.record(kName, asked, denial, kStart, kStart);
    Decision parts[] = {{.allowed = true, .limit = 20, .remaining = 0, .reset_after = wait},
                        {.allowed = true, .limit = 40, .remaining = 1, .reset_after = 2 * wait}};
    asked.cost = 0;
    if (keeps == Keeps::kAll) asked.parts = parts;
    answers.record(kName, asked, parts[0], kStart, kStart);
    asked.cost = 8;
    Decision decision;
    ASSERT_TRUE(answers.denies(kName, asked, kStart, decision));
    EXPECT_EQ(decision.limit, 40);
    EXPECT_EQ(decision.remaining, keeps == Keeps::kAll ? 1 : 2);
    EXPECT_EQ(decision.reset_after, (keeps == Keeps::kAll ? 2 : 3) * wait);
  }
}

// Its wait is that of a single unit.
TEST_F(LastAnswersTest, ACostThatABucketLendsIsDeniedAgain) {
  const Limit lends("token_bucket 5/10s borrow=yes & fixed_window 40/1h");
  limit_ = &lends;
  tell({}, {.limit = 5, .retry_after = nanoseconds(100)});
  EXPECT_TRUE(find({.cost = 40}));
  EXPECT_FALSE(find({.cost = 41}));
}

// The key would be taken for fresh.
TEST_F(LastAnswersTest, WhatCountsNoLongerIsNotKeptAsTheStricter) {
  const auto tell_used = [&](std::int64_t used, nanoseconds reset_after, Instant at) {
    answers_.record(
        kName, request({}),
        {.allowed = true, .limit = 10, .remaining = 10 - used, .reset_after = reset_after}, kStart,
        at, kStart);
    return answers_.take_new(kName, low_.definition()).parts[0];
  };
  EXPECT_EQ(tell_used(8, nanoseconds(10), kStart + 5)->used, 8);
  EXPECT_FALSE(tell_used(3, nanoseconds(500), kStart + 14));
  EXPECT_EQ(tell_used(3, nanoseconds(500), kStart + 15)->used, 3);
}

TEST_F(LastAnswersTest, KeepsOnlyDenialsWhereToldSo) {
  LastAnswers answers({.keeps = LastAnswers::Keeps::kDenials, .most_bytes = kOptions.most_bytes});
  answers.record(kName, request({}), {.allowed = true, .limit = 10}, kStart, kStart);
  EXPECT_FALSE(answers.take_new(kName, low_.definition()).parts[0]);
  answers.record(kName, request({}), {.limit = 10, .retry_after = nanoseconds(1)}, kStart, kStart);
  EXPECT_TRUE(answers.was_denied(kName, kStart));
  EXPECT_FALSE(answers.was_denied(kName, kStart + kSecondNs)) << "long ago";
}

TEST_F(LastAnswersTest, IsBounded) {
  std::vector<std::string> keys(3 * kMostDenied);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = std::to_string(i);
    const nanoseconds wait(1'000 + i);
    tell({.key = keys[i]}, {.limit = 10, .retry_after = wait, .reset_after = wait});
  }
  std::size_t remembered = 0;
  std::size_t late = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool found = find({.key = keys[i]}).has_value();
    remembered += found ? 1 : 0;
    late += found && i >= keys.size() - kMostDenied ? 1 : 0;
  }
  EXPECT_LE(remembered, kMostDenied);
  EXPECT_GT(remembered, kMostDenied * 9 / 10);
  EXPECT_GT(late, kMostDenied * 3 / 4) << "those that end first give way";
}

// What was told of a key may be forgotten before its denial is.
TEST_F(LastAnswersTest, AForgottenKeyIsNotDeniedAgain) {
  tell({}, {.limit = 10, .retry_after = std::chrono::hours(1), .reset_after = nanoseconds(1)});
  ASSERT_TRUE(find({}));
  const Decision allowed{
      .allowed = true, .limit = 10, .remaining = 9, .reset_after = std::chrono::hours(1)};
  for (std::size_t i = 0; i < 3 * kMostKeys; ++i) {
    const std::string key = std::to_string(i);
    tell({.key = key}, allowed);
  }
  EXPECT_FALSE(answers_.take_new(name({}), low_.definition()).parts[0]);
  tell({.cost = 0}, {.allowed = true, .limit = 10});
  answers_.ask_again(name({}), kStart + 1, false);
  EXPECT_EQ(answers_.take_new(name({}), low_.definition()).denied.until, 0);
}

// Where there is room, no key that still counts is forgotten for another one.
TEST_F(LastAnswersTest, GrowsWithTheKeys) {
  std::vector<std::string> keys(kMostKeys / 3);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = std::to_string(i);
    tell({.key = keys[i]}, {.allowed = true, .limit = 10, .reset_after = nanoseconds(1 + i)});
  }
  std::size_t known = 0;
  for (const std::string& key : keys) {
    known += answers_.take_new(name({.key = key}), low_.definition()).parts[0] ? 1 : 0;
  }
  EXPECT_GT(known, keys.size() * 99 / 100);
}

// Asks the store only where the cache does not deny, at random instants, and compares.
RC_GTEST_PROP(LastAnswers, NeverDeniesWhatTheStoreWouldAdmit, ()) {
  const Limit limit(*rc::gen::element<std::string>(
      "token_bucket 10/1us", "leaky_bucket 10/1us queue=4", "fixed_window 10/1us",
      "sliding_log 10/1us", "sliding_window 10/1us", "sliding_counter 10/1us",
      "token_bucket 10/1us borrow=yes", "token_bucket 10/1us & fixed_window 20/5us",
      "token_bucket 5/1us borrow=yes & fixed_window 11/5us"));
  MemoryStore store;
  LastAnswers answers(kOptions);
  const auto space = store.open_space(limit.definition());
  Instant now = kStart;
  const int requests = *rc::gen::inRange(1, 200);
  for (int i = 0; i < requests; ++i) {
    now += *rc::gen::inRange(0, 150);
    const Request request{.limit = &limit.definition(),
                          .space = space.get(),
                          .key = "k",
                          .operation = *rc::gen::element(Operation::kTake, Operation::kTakeUpTo),
                          .cost = *rc::gen::inRange(0, 12),
                          .patience_ns = *rc::gen::element<std::int64_t>(-1, -1, 0, 100)};
    Decision cached;
    const bool denied = answers.denies(kName, request, now, cached);
    Decision asked;
    store.decide({&request, 1}, now, {&asked, 1});
    if (denied) {
      RC_ASSERT(!asked.allowed);
      RC_ASSERT(asked.retry_after != kNever);
      RC_ASSERT(cached.retry_after <= asked.retry_after);
      RC_ASSERT(cached.retry_after > nanoseconds(0));
    } else {
      answers.record(kName, request, asked, now, now);
    }
  }
}

/// What a FallbackStore does with its deny cache.
class FallbackCacheTest : public FallbackFixture {
 protected:
  void SetUp() override {
    wrap({});
    decide({.cost = 10});
  }

  // Whether the store itself is asked.
  bool asks(const Ask& ask, Instant now = kStoreTime) {
    const std::size_t before = inner_->asked.size();
    last_ = decide(ask, now);
    return inner_->asked.size() > before;
  }

  Decision last_;
};

TEST_F(FallbackCacheTest, AHotDeniedKeyAsksTheStoreOnce) {
  EXPECT_TRUE(asks(Ask{}));
  const Decision told = last_;
  for (int i = 0; i < 1'000; ++i) ASSERT_FALSE(asks(Ask{}));
  EXPECT_FALSE(last_.allowed);
  EXPECT_EQ(last_.source, Source::kCache);
  EXPECT_EQ(last_.limit, 10);
  EXPECT_EQ(last_.remaining, 0);
  EXPECT_GT(last_.retry_after, std::chrono::minutes(5));
  EXPECT_LE(last_.retry_after, told.retry_after);
  EXPECT_GE(last_.reset_after, last_.retry_after);
  EXPECT_EQ(store_->counters().answered_by_cache, 1'000U);
  EXPECT_EQ(store_->counters().unanswered, 0U);
}

// However brief: a key that has been denied is asked about by the precise clock.
TEST_F(FallbackCacheTest, AKeyOfBriefDenialsAsksForEachAdmissionAndOneDenial) {
  use("token_bucket 1/2ms", "brief");
  inner_->asked.clear();
  const Instant end = store_->now() + 60 * kMillisecondNs;
  std::size_t admitted = 0;
  while (store_->now() < end) admitted += decide(Ask{}).allowed ? 1 : 0;
  EXPECT_LE(inner_->asked.size(), 2 * admitted + 20);
}

TEST_F(FallbackCacheTest, IsNotForInstantsThatAreGiven) {
  EXPECT_TRUE(asks(Ask{}, kStart));
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_TRUE(asks(Ask{}, kStart));
  EXPECT_FALSE(asks(Ask{}));
}

TEST_F(FallbackCacheTest, LearnsFromGroupsButDoesNotAnswerThem) {
  EXPECT_FALSE(decide_all({{.key = "k"}, {.key = "other"}}).allowed);
  EXPECT_FALSE(asks(Ask{}));
  EXPECT_TRUE(asks({.key = "other"}));
  inner_->asked.clear();
  EXPECT_FALSE(decide_all({{.key = "k"}, {.key = "other"}}).allowed);
  EXPECT_EQ(inner_->asked.size(), 2U);
}

TEST_F(FallbackCacheTest, IsNotForThoseWhoWantParts) {
  decide(Ask{});
  ASSERT_FALSE(asks(Ask{}));
  Request wants_parts = request(Ask{});
  Decision part;
  wants_parts.parts = {&part, 1};
  store_->decide({&wants_parts, 1}, kStoreTime, {&last_, 1});
  EXPECT_EQ(last_.source, Source::kStore);
  EXPECT_EQ(part, last_);
  // Of an admission only, in a list of one as well.
  wants_parts.parts_if_allowed = true;
  store_->decide({&wants_parts, 1}, kStoreTime, {&last_, 1});
  EXPECT_EQ(last_.source, Source::kCache);
  EXPECT_EQ(store_->decide_all({&wants_parts, 1}, kStoreTime).source, Source::kCache);
}

TEST_F(FallbackCacheTest, RefundsAndResetsClear) {
  decide(Ask{});
  decide({.cost = 0, .operation = Operation::kRefund});  // A reservation that cost what it held.
  EXPECT_FALSE(asks(Ask{}));
  decide({.operation = Operation::kRefund});
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_TRUE(last_.allowed);
  decide(Ask{});
  ASSERT_FALSE(asks(Ask{}));
  decide({.operation = Operation::kReset}, kStart);
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_TRUE(last_.allowed);
}

TEST_F(FallbackCacheTest, IsInTheOrderOfTheBatch) {
  decide(Ask{});
  const auto decisions =
      decide_batch({Ask{}, {.operation = Operation::kReset}, Ask{}, {.cost = 10}});
  EXPECT_EQ(decisions[0].source, Source::kCache);
  EXPECT_TRUE(decisions[2].allowed);
  EXPECT_EQ(decisions[2].source, Source::kStore);
  EXPECT_FALSE(decisions[3].allowed);
  EXPECT_EQ(decisions[3].remaining, 9);
}

// The denial is on its way when, elsewhere in this process, units of the key are given back.
TEST_F(FallbackCacheTest, ADenialOlderThanARefundOrAResetIsNotUsed) {
  for (const Operation operation : {Operation::kRefund, Operation::kReset}) {
    inner_->on_the_way = [&] { decide({.operation = operation}); };
    EXPECT_FALSE(decide(Ask{}).allowed);
    EXPECT_TRUE(asks(Ask{}));
    EXPECT_TRUE(last_.allowed);
  }
}

// The store may have carried them out after the denial.
TEST_F(FallbackCacheTest, ADenialDuringARefundOrAResetWhoseReplyIsLostIsNotUsed) {
  for (const Operation operation : {Operation::kRefund, Operation::kReset}) {
    inner_->says = [&](const Request& asked) -> std::optional<Decision> {
      if (asked.operation != operation) return std::nullopt;
      return Decision{.source = Source::kUnavailable, .taken = kTakenUnknown};
    };
    inner_->on_the_way = [this] { EXPECT_FALSE(decide(Ask{}).allowed); };
    EXPECT_EQ(decide({.operation = operation}).source, Source::kLocal);
    EXPECT_TRUE(asks(Ask{}));
    EXPECT_FALSE(asks(Ask{}));
  }
}

// What is denied while a reset is under way may be older than it.
TEST_F(FallbackCacheTest, ADenialDuringAResetIsNotRemembered) {
  inner_->on_the_way = [this] {
    EXPECT_TRUE(decide({.cost = 10}).allowed);
    EXPECT_FALSE(decide(Ask{}).allowed);
  };
  decide({.operation = Operation::kReset});
  EXPECT_TRUE(asks(Ask{}));
}

TEST_F(FallbackCacheTest, OtherNumbersForTheSpaceClear) {
  decide(Ask{});
  const auto same = store_->open_space(limit_->definition());
  EXPECT_FALSE(asks(Ask{}));
  use("token_bucket 11/1h");
  EXPECT_EQ(same, space_);
  EXPECT_TRUE(asks(Ask{}));
  use("token_bucket 10/1h");
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_FALSE(asks(Ask{}));
}

TEST_F(FallbackCacheTest, MayBeSwitchedOff) {
  wrap({.deny_cache = nanoseconds(0)});
  decide({.cost = 10});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(asks(Ask{}));
  EXPECT_EQ(store_->counters().answered_by_cache, 0U);
  inner_->lose_all();
  EXPECT_EQ(decide(Ask{}).source, Source::kLocal);
  EXPECT_FALSE(last_.allowed) << "what the store denied stays denied";
}

}  // namespace
}  // namespace sluice
