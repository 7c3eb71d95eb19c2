#include <gtest/gtest.h>

#include <stdexcept>

#include "core/arithmetic.h"
#include "fallback/charge_back.h"
#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

/// The local states know what the store last said, and what they admit is charged to it later.
class FallbackToldTest : public FallbackFixture {
 protected:
  std::int64_t admitted(Instant now, int tries = 100) {
    std::int64_t count = 0;
    for (int i = 0; i < tries; ++i) count += decide(Ask{}, now).allowed ? 1 : 0;
    return count;
  }
  std::int64_t remaining_in_store(Instant now = kStart) {
    return decide_elsewhere({.cost = 0}, now).remaining;
  }
  void lose_charges() {
    inner_->loses = [](const Request& asked) { return asked.operation == Operation::kCharge; };
  }
  // The store answers a request for another key.
  void find_again(Instant now = kStart) {
    inner_->lose_nothing();
    inner_->asked.clear();
    decide({.key = "other", .cost = 0}, now);
  }
};

TEST_F(FallbackToldTest, EachAnswerTells) {
  using enum Operation;
  struct Row {
    const char* answer;
    std::vector<Ask> elsewhere;
    std::vector<Ask> here;
    std::int64_t remaining;
  };
  for (const Row& row : {
           Row{"a take", {}, {{.cost = 8}}, 32},
           Row{"a peek", {{.cost = 30}}, {{.cost = 0}}, 10},
           Row{"a peek of a fresh key", {}, {{.cost = 0}}, 40},
           Row{"a denial", {{.cost = 36}}, {{.cost = 5}}, 4},
           Row{"a denial of a fresh key", {}, {{.cost = 41}}, 40},
           Row{"a refund", {{.cost = 36}}, {{.cost = 1, .operation = kRefund}}, 5},
           Row{"a reset", {}, {{.cost = 10}, {.operation = kReset}}, 40},
           Row{"a charge", {{.cost = 4}}, {{.cost = 3, .operation = kCharge}}, 33},
           Row{"what is left", {{.cost = 30}}, {{.cost = 15, .operation = kTakeUpTo}}, 0},
           Row{"nothing is left", {{.cost = 40}}, {{.cost = 5, .operation = kTakeUpTo}}, 0},
       }) {
    SCOPED_TRACE(row.answer);
    inner_ = std::make_shared<ScriptedStore>();
    wrap({}, "fixed_window 40/1h");
    for (const Ask& ask : row.elsewhere) decide_elsewhere(ask, kStart);
    for (const Ask& ask : row.here) EXPECT_EQ(decide(ask, kStart).source, Source::kStore);
    inner_->lose_all();
    EXPECT_EQ(decide({.cost = 0}, kStart).source, Source::kLocal);
    EXPECT_EQ(decide({.cost = 0}, kStart).remaining, row.remaining);
  }
}

TEST_F(FallbackToldTest, ManyProcessesTogetherAdmitWhatRemained) {
  wrap({.local_share = 4}, "fixed_window 40/1h");
  decide_elsewhere({.cost = 28}, kStart);
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 12);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart), 3);
  EXPECT_EQ(admitted(kStart + kHourNs), 10) << "its share of the next window";
}

TEST_F(FallbackToldTest, ABucketRefillsFromWhatRemained) {
  wrap({}, "token_bucket 40/40s");
  decide_elsewhere({.cost = 38}, kStart);
  EXPECT_EQ(decide(Ask{}, kStart).remaining, 1);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart), 1);
  EXPECT_EQ(admitted(kStart + 5 * kSecondNs), 5);
}

// Units of others that the store has forgotten since do not count as this process's own.
TEST_F(FallbackToldTest, OnlyItsOwnUnitsCountAgainstTheShareOfAProcess) {
  wrap({.local_share = 2}, "fixed_window 40/1h");
  decide_elsewhere({.cost = 38}, kStart);
  decide({.cost = 0}, kStart);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 1);
  inner_->lose_nothing();
  decide_elsewhere({.operation = Operation::kReset}, kStart);
  decide_elsewhere({.cost = 2}, kStart);
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 38);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart), 18) << "2 may be its own, which is 4 of its share";
}

TEST_F(FallbackToldTest, WhatTheStoreDidNotAdmitUsesNoShare) {
  wrap({.local_share = 2}, "fixed_window 10/1h");
  decide_elsewhere({.cost = 4}, kStart);
  decide_elsewhere({.key = "other", .cost = 9}, kStart);
  EXPECT_FALSE(decide_all({{.cost = 3}, {.key = "other", .cost = 2}}, kStart).allowed);
  const Ask up_to{.key = "other", .cost = 5, .operation = Operation::kTakeUpTo};
  EXPECT_EQ(decide(up_to, kStart).taken, 1);
  decide_elsewhere({.key = "other", .cost = 6, .operation = Operation::kRefund}, kStart);
  EXPECT_TRUE(decide_all({Ask{}, {.key = "other", .cost = 0}}, kStart).allowed);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 2);
  EXPECT_EQ(decide({.key = "other", .cost = 0}, kStart).remaining, 3);
}

TEST_F(FallbackToldTest, WhatTheStoreAdmitsBeyondTheShareUsesItUp) {
  for (const Operation operation : {Operation::kTake, Operation::kTakeUpTo}) {
    wrap({.local_share = 2}, "token_bucket 10/1h");
    EXPECT_TRUE(decide({.cost = 1}, kStart).allowed);
    EXPECT_TRUE(decide({.cost = 5, .operation = operation}, kStart).allowed);
    inner_->lose_all();
    EXPECT_EQ(admitted(kStart), 0);
    EXPECT_EQ(decide({.cost = 0}, kStart + kHourNs).remaining, 5) << "no debt";
    inner_->lose_nothing();
    decide_elsewhere({.operation = Operation::kReset}, kStart);
  }
}

// The share of a bucket that lends is overdrawn then: it lends nothing more before it is paid back.
TEST_F(FallbackToldTest, WhatIsTakenBeyondTheShareOfABucketThatLendsIsOwed) {
  for (const Operation operation : {Operation::kTake, Operation::kTakeUpTo}) {
    wrap({.local_share = 2}, "token_bucket 10/1h borrow=yes");
    EXPECT_TRUE(decide({.cost = 8, .operation = operation}, kStart).allowed);
    inner_->lose_all();
    EXPECT_EQ(admitted(kStart), 0);
    inner_->lose_nothing();
    decide_elsewhere({.operation = Operation::kReset}, kStart);
  }
}

// From when the answer arrives: a bucket gets nothing for the time that it took.
TEST_F(FallbackToldTest, WhatRemainedIsThatWhenTheAnswerArrives) {
  bool is_in_time = false;  // Else this thread was held up until a unit had come back.
  while (!is_in_time) {
    wrap({}, "token_bucket 10/1s");
    decide_elsewhere({.operation = Operation::kReset});
    Instant arrives = 0;
    inner_->on_the_way = [&] {
      const Instant began = store_->now();
      while ((arrives = store_->now()) < began + 110 * kMillisecondNs) {
      }
    };
    EXPECT_TRUE(decide({.cost = 10}).allowed);
    inner_->lose_all();
    const bool is_allowed = decide(Ask{}).allowed;
    inner_->lose_nothing();
    is_in_time = store_->now() < arrives + 100 * kMillisecondNs;
    if (is_in_time) EXPECT_FALSE(is_allowed);
  }
}

// The window that the store counts in began before this process knew of the key.
TEST_F(FallbackToldTest, AnAnchoredWindowEndsWhenTheStoreSaid) {
  wrap({}, "fixed_window 40/1h anchor=first");
  decide_elsewhere({.cost = 30}, kStart);
  decide({.cost = 4}, kStart + kHourNs / 2);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart + kHourNs - 1), 6);
  EXPECT_EQ(admitted(kStart + kHourNs), 40);
}

// Local units of an earlier loss stop counting before those that the store counts.
TEST_F(FallbackToldTest, WhatIsToldReplacesWhatWasKnown) {
  wrap({}, "sliding_log 40/1h");
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart, 30), 30);
  find_again(kStart + kHourNs / 2);
  EXPECT_EQ(decide({.cost = 0}, kStart + kHourNs / 2).remaining, 10);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart + kHourNs), 10) << "the store counts the 30 for half an hour more";
  EXPECT_EQ(admitted(kStart + kHourNs + kHourNs / 2), 30);
}

// Each part has what the store said of it, whichever of them binds.
TEST_F(FallbackToldTest, EachPartIsTold) {
  wrap({}, "fixed_window 10/1m & fixed_window 100/1h");
  for (int minute = 0; minute < 9; ++minute) {
    decide_elsewhere({.cost = 10}, kStart + minute * kMinuteNs);
  }
  EXPECT_EQ(decide_batch({Ask{}, {.key = "other"}}, kStart + 9 * kMinuteNs)[0].remaining, 9);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart + 9 * kMinuteNs), 9);
  EXPECT_EQ(admitted(kStart + 10 * kMinuteNs), 0) << "no more in this hour";
}

TEST_F(FallbackToldTest, WhatTheStoreDeniedStaysDeniedUntilItsRetryAfter) {
  wrap({}, "fixed_window 10/10ms");
  decide_elsewhere({.operation = Operation::kBlock, .duration_ns = kHourNs});
  EXPECT_FALSE(decide(Ask{}).allowed);
  EXPECT_EQ(decide({.operation = Operation::kRefund}).remaining, 0) << "which does not end it";
  inner_->lose_all();
  let_pass(20 * kMillisecondNs);
  const Decision denied = decide(Ask{});
  EXPECT_FALSE(denied.allowed);
  EXPECT_GT(denied.retry_after, std::chrono::minutes(59));
  decide({.operation = Operation::kReset});
  EXPECT_TRUE(decide(Ask{}).allowed) << "unless this process resets it";
}

TEST_F(FallbackToldTest, WhatTheStoreDeniedStaysDeniedToAGroup) {
  wrap({}, "fixed_window 10/10ms");
  decide_elsewhere({.operation = Operation::kBlock, .duration_ns = kHourNs});
  EXPECT_FALSE(decide_all({{.key = "third"}, Ask{}}).allowed);
  inner_->lose_all();
  let_pass(20 * kMillisecondNs);
  EXPECT_GT(decide(Ask{}).retry_after, std::chrono::minutes(59)) << "alone";
  EXPECT_TRUE(decide({.key = "third"}).allowed);
  std::vector<Decision> parts(2);
  std::vector<Request> asked = requests({{.key = "other", .cost = 10}, Ask{}});
  for (std::size_t i = 0; i < 2; ++i) asked[i].parts = std::span(parts).subspan(i, 1);
  const Decision denied = store_->decide_all(asked, kStoreTime);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.binding, 1);
  EXPECT_EQ(denied.source, Source::kLocal);
  EXPECT_GT(denied.retry_after, std::chrono::minutes(59));
  EXPECT_TRUE(parts[0].allowed);
  EXPECT_EQ(parts[0].remaining, 10);
  EXPECT_FALSE(parts[1].allowed);
  EXPECT_EQ(parts[1].binding, 0) << "the part of its own limit";
  EXPECT_EQ(parts[1].retry_after, denied.retry_after);
  EXPECT_TRUE(decide({.key = "other", .cost = 10}).allowed) << "all or nothing";
}

TEST_F(FallbackToldTest, ABlockThatAnotherProcessEndedIsOver) {
  wrap({}, "fixed_window 10/1h");
  const Ask block{.operation = Operation::kBlock, .duration_ns = 24 * kHourNs};
  decide(block, kStart);
  decide_elsewhere({.operation = Operation::kReset}, kStart);
  EXPECT_EQ(decide(Ask{}, kStart).remaining, 9);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart), 9);
  find_again();
  decide_elsewhere({.operation = Operation::kReset}, kStart);
  EXPECT_EQ(decide(Ask{}, kStart).remaining, 9);
  decide(block, kStart);
  EXPECT_FALSE(decide(Ask{}, kStart).allowed);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart + kHourNs), 0) << "what was told before this block does not end it";
  inner_->lose_nothing();
  decide_elsewhere({.operation = Operation::kReset}, kStart);
  EXPECT_EQ(decide({.cost = 10}, kStart).remaining, 0) << "which was admitted";
  EXPECT_FALSE(decide(Ask{}, kStart).allowed);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart + kHourNs), 10);
}

// The answers of a batch arrive together, that to the reset after the answer to a block which the
// store has carried out later.
TEST_F(FallbackToldTest, AResetEndsNoBlockThatCameAfterIt) {
  wrap({});
  const Ask reset{.operation = Operation::kReset};
  const Ask block{.operation = Operation::kBlock, .duration_ns = kMinuteNs};
  for (const auto& [limit, cost] : {std::pair("fixed_window 10/1h", 4), {"concurrency 10", 1}}) {
    use(limit, cost == 1 ? "permits" : "units");
    decide({.cost = cost, .permit = 1}, kStart);
    inner_->on_the_way = [&] { decide(block, kStart + 1); };
    decide_batch({reset, {.key = "other", .cost = 0}}, kStart);
    inner_->lose_all();
    EXPECT_FALSE(decide({.permit = 2}, kStart + 1).allowed) << limit;
    inner_->lose_nothing();
    decide_batch({block, reset}, kStart + 2);
    inner_->lose_all();
    EXPECT_EQ(decide({.cost = 0}, kStart + 2).remaining, 10) << limit;
    inner_->lose_nothing();
  }
}

TEST_F(FallbackToldTest, WhatCountsNoLongerIsNotChargedBackOfABlockedKey) {
  wrap({.local_share = 4}, "sliding_log 100/10m");
  inner_->lose_all();
  Instant now = kStart;
  for (int i = 0; i < 12; ++i) {
    now += 6 * kMinuteNs;
    EXPECT_TRUE(decide({.cost = 10}, now).allowed);
  }
  decide({.operation = Operation::kBlock, .duration_ns = kMinuteNs}, now);
  find_again(now);
  EXPECT_EQ(remaining_in_store(now), 80) << "two of the twelve count";
}

// The raised number leaves more than was used, but the store said that nothing remained.
TEST_F(FallbackToldTest, ABlockThatStandsOutlastsARaisedLimit) {
  wrap({}, "fixed_window 10/1h");
  decide({.operation = Operation::kBlock, .duration_ns = 24 * kHourNs}, kStart);
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 0);
  const auto held = space_;
  use("fixed_window 100/1h");
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart), 0);
}

// The smaller limit of this name says only that nothing of it remains.
TEST_F(FallbackToldTest, WhatIsUsedOfALargerLimitIsKnownThoughASmallerOneWasAskedLast) {
  wrap({}, "fixed_window 1000/1d");
  decide({.cost = 1000}, kStart);
  const auto held = space_;
  const auto larger = std::move(limit_);
  use("fixed_window 3/1d");
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 0);
  inner_->lose_all();
  use(larger->expression());
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 0);
}

TEST_F(FallbackToldTest, ADenialThatTheStoreTookBackIsOver) {
  wrap({.deny_cache = std::chrono::seconds(0)}, "token_bucket 10/10ms");
  decide_elsewhere({.operation = Operation::kBlock, .duration_ns = kHourNs});
  EXPECT_FALSE(decide(Ask{}).allowed);
  decide_elsewhere({.operation = Operation::kReset});
  let_pass(20 * kMillisecondNs);
  EXPECT_TRUE(decide(Ask{}).allowed);
  inner_->lose_all();
  let_pass(20 * kMillisecondNs);
  EXPECT_TRUE(decide(Ask{}).allowed);
}

TEST_F(FallbackToldTest, AGroupIsToldOfEachOfItsKeys) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.key = "a", .cost = 30}, kStart);
  EXPECT_TRUE(decide_all({{.key = "a"}, {.key = "b", .cost = 2}}, kStart).allowed);
  decide_elsewhere({.key = "c", .cost = 36}, kStart);
  EXPECT_FALSE(decide_all({{.key = "b"}, {.key = "c", .cost = 5}}, kStart).allowed);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "a", .cost = 0}, kStart).remaining, 9);
  EXPECT_EQ(decide({.key = "b", .cost = 0}, kStart).remaining, 38);
  EXPECT_EQ(decide({.key = "c", .cost = 0}, kStart).remaining, 4);
  EXPECT_FALSE(decide_all({{.key = "b"}, {.key = "a", .cost = 10}}, kStart).allowed);
}

TEST_F(FallbackToldTest, AGroupThatIsRefusedTellsNothing) {
  wrap({}, "fixed_window 40/1h");
  EXPECT_THROW(decide_all({{.key = "a"}, {.key = "a", .cost = 9}}, kStart), std::invalid_argument);
  EXPECT_THROW(submit({{.key = "a"}, {.key = "a", .cost = 9}}, Batch::Mode::kTogether),
               std::invalid_argument);
  inner_->lose_all();
  EXPECT_THROW(decide_all({{.key = "a"}, {.key = "a"}}), std::invalid_argument);
  EXPECT_EQ(decide({.key = "a", .cost = 0}, kStart).remaining, 40);
}

// Of an `&` in a group, the binding part is told.
TEST_F(FallbackToldTest, AGroupIsToldOfTheBindingParts) {
  wrap({}, "fixed_window 20/1h & fixed_window 40/1d");
  decide_elsewhere({.key = "a", .cost = 15}, kStart);
  EXPECT_TRUE(decide_all({{.key = "a"}, {.key = "b", .cost = 2}}, kStart).allowed);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "a", .cost = 0}, kStart).remaining, 4);
  EXPECT_EQ(decide({.key = "b", .cost = 0}, kStart).remaining, 18);
}

TEST_F(FallbackToldTest, WhatIsAdmittedHereIsChargedToTheStore) {
  wrap({}, "fixed_window 40/1h");
  decide({.cost = 10}, kStart);
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  EXPECT_EQ(decide({.cost = 30, .operation = Operation::kTakeUpTo}, kStart).taken, 25);
  decide({.cost = 4, .operation = Operation::kRefund}, kStart);
  decide({.key = "denied", .cost = 41}, kStart);
  find_again();
  EXPECT_EQ(remaining_in_store(), 4);
  EXPECT_EQ(store_->counters().charged_back, 26U);
  EXPECT_EQ(store_->counters().not_charged_back, 0U);
  find_again();
  EXPECT_EQ(remaining_in_store(), 4) << "once";
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 4);
}

// Though it is asked nothing.
TEST_F(FallbackToldTest, AStoreThatIsBackIsChargedAtOnce) {
  wrap({}, "fixed_window 40/1000d");
  inner_->lose_all();
  decide({.cost = 5});
  inner_->lose_nothing();
  inner_->asked.clear();
  inner_->come_back();
  ASSERT_EQ(inner_->asked.size(), 1U);
  EXPECT_EQ(remaining_in_store(kStoreTime), 35);
  inner_->come_back();
  EXPECT_EQ(remaining_in_store(kStoreTime), 35) << "once";
}

// A part of the batch has an answer, but not the store's.
TEST_F(FallbackToldTest, AStoreThatAnswersNothingIsNotCharged) {
  wrap({}, "fixed_window 40/1h");
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  inner_->asked.clear();
  const Ask refund{.operation = Operation::kRefund, .giver = Source::kLocal};
  decide_batch({refund, {.key = "lost"}}, kStart);
  EXPECT_EQ(inner_->asked.size(), 1U);
}

TEST_F(FallbackToldTest, AGroupIsChargedToTheStoreToo) {
  wrap({}, "fixed_window 40/1h");
  inner_->lose_all();
  EXPECT_TRUE(decide_all({{.cost = 3}, {.key = "l", .cost = 4}}, kStart).allowed);
  EXPECT_FALSE(decide_all({{.cost = 3}, {.key = "l", .cost = 40}}, kStart).allowed);
  inner_->lose_nothing();
  decide_all({{.key = "other"}}, kStart);
  EXPECT_EQ(remaining_in_store(), 37);
  EXPECT_EQ(decide_elsewhere({.key = "l", .cost = 0}, kStart).remaining, 36);
}

TEST_F(FallbackToldTest, WhatDoesNotCountAnyMoreIsNotCharged) {
  wrap({}, "token_bucket 10/10h");
  inner_->lose_all();
  for (int hour = 0; hour < 50; ++hour) decide(Ask{}, kStart + hour * kHourNs);
  for (int i = 0; i < 6; ++i) decide(Ask{}, kStart + 49 * kHourNs);
  // 56 were admitted, seven of them since the bucket was last full.
  find_again(kStart + 51 * kHourNs);
  EXPECT_EQ(remaining_in_store(kStart + 51 * kHourNs), 5);
  EXPECT_EQ(store_->counters().charged_back, 5U);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}, kStart + 51 * kHourNs).remaining, 5);
  decide({.key = "fresh soon"}, kStart);
  find_again(kStart + 60 * kHourNs);
  EXPECT_EQ(store_->counters().charged_back, 5U);
  EXPECT_EQ(store_->counters().not_charged_back, 0U);
}

TEST_F(FallbackToldTest, OfAnAmpersandNoBucketIsChargedMoreThanItHolds) {
  wrap({}, "token_bucket 10/10s & fixed_window 1000/1d");
  inner_->lose_all();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(decide(Ask{}, kStart + i * kSecondNs).allowed);
  }
  const Instant later = kStart + 100 * kSecondNs;
  find_again(later);
  EXPECT_EQ(store_->counters().charged_back, 10U);
  EXPECT_EQ(store_->counters().not_charged_back, 90U) << "the day's window would count them";
  EXPECT_LE(decide({.cost = 10}, later).retry_after, std::chrono::seconds(10));
}

TEST_F(FallbackToldTest, ADebtBeyondTheShareIsChargedToo) {
  wrap({.local_share = 4}, "fixed_window 40/1h");
  inner_->lose_all();
  decide({.cost = 40, .operation = Operation::kCharge}, kStart);
  decide({.operation = Operation::kBlock, .duration_ns = kHourNs}, kStart);
  find_again();
  EXPECT_EQ(store_->counters().charged_back, 40U) << "of a blocked key as well";
  EXPECT_EQ(remaining_in_store(), 0);
}

// The store does not know of it yet, and says that all remains.
TEST_F(FallbackToldTest, ADebtBeyondTheShareIsNotForgottenWithWhatIsTold) {
  wrap({.local_share = 3}, "fixed_window 10/1h");
  inner_->lose_all();
  decide({.cost = 5, .operation = Operation::kCharge}, kStart);
  lose_charges();
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 10);
  inner_->lose_all();
  decide({.operation = Operation::kRefund, .giver = Source::kLocal}, kStart);
  EXPECT_EQ(admitted(kStart), 0) << "four are more than its share";
}

// The local states have no room for so many keys.
TEST_F(FallbackToldTest, WhatTheLocalStatesHaveForgottenIsCounted) {
  wrap({.local_bytes = std::size_t{2} << 20}, "sliding_log 40/1h");
  inner_->lose_all();
  const std::uint64_t keys = ChargeBack::kMaxKeys / 2;
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::string key = std::to_string(i);
    EXPECT_TRUE(decide({.key = key, .cost = 2}, kStart).allowed);
  }
  for (int i = 0; i < 64; ++i) find_again();
  const FallbackCounters& counters = store_->counters();
  EXPECT_GT(counters.not_charged_back, 0U);
  EXPECT_EQ(counters.charged_back + counters.not_charged_back, 2 * keys);
}

// Whatever the store says remains: it may have said so before the charge.
TEST_F(FallbackToldTest, AChargeWhoseReplyIsLostCountsHereUntilTheKeyIsFresh) {
  wrap({}, "fixed_window 40/1h");
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart), 40);
  for (int i = 0; i < 3; ++i) {
    inner_->lose_nothing();
    inner_->says = [](const Request& asked) -> std::optional<Decision> {
      if (asked.operation != Operation::kCharge) return std::nullopt;
      return Decision{.source = Source::kUnavailable, .taken = kTakenUnknown};
    };
    EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 40);
    inner_->says = nullptr;
    inner_->lose_all();
    EXPECT_EQ(admitted(kStart), 0);
  }
  EXPECT_EQ(store_->counters().not_charged_back, 40U);
  EXPECT_EQ(admitted(kStart + kHourNs), 40);
}

TEST_F(FallbackToldTest, ARefundThatTheStoreMayHaveDoneIsNoLessToCharge) {
  wrap({}, "fixed_window 40/1h");
  decide({.cost = 10}, kStart);
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  inner_->lose_nothing();
  inner_->lose_replies();
  decide({.cost = 4, .operation = Operation::kRefund}, kStart);
  inner_->says = nullptr;
  find_again();
  EXPECT_EQ(store_->counters().charged_back, 5U);
}

TEST_F(FallbackToldTest, AResetThatTheStoreAnsweredForgetsWhatIsToBeCharged) {
  wrap({}, "fixed_window 40/1h");
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  lose_charges();
  decide({.operation = Operation::kReset}, kStart);
  find_again(kStart + ChargeBack::kPause);
  EXPECT_EQ(store_->counters().charged_back, 0U);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart + kSecondNs), 40);
}

// A window keeps what was used, and a bucket the time until it is full.
TEST_F(FallbackToldTest, OtherNumbersGoOnFromWhatWasUsed) {
  struct Row {
    const char* former;
    const char* next;
    std::int64_t remaining;
  };
  for (const Row& row : {Row{"fixed_window 100/1h", "fixed_window 50/1h", 10},
                         Row{"fixed_window 100/1h", "fixed_window 1000/1h", 960},
                         Row{"token_bucket 100/1h", "token_bucket 50/1h", 30}}) {
    SCOPED_TRACE(row.next);
    inner_ = std::make_shared<ScriptedStore>();
    wrap({}, row.former);
    EXPECT_EQ(decide({.cost = 40}, kStart).remaining, 60);
    const auto held = space_;
    use(row.next);
    inner_->lose_all();
    EXPECT_EQ(decide({.cost = 0}, kStart).remaining, row.remaining);
  }
  EXPECT_EQ(decide({.cost = 0}, kStart).reset_after, std::chrono::minutes(24)) << "as before";
}

TEST_F(FallbackToldTest, WhatABucketOwesIsToldAndChargedToo) {
  wrap({}, "token_bucket 10/10s");
  decide({.key = "told", .cost = 35, .operation = Operation::kCharge}, kStart);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "told", .cost = 0}, kStart).reset_after, std::chrono::seconds(35));
  decide({.cost = 35, .operation = Operation::kCharge}, kStart);
  find_again(kStart + kSecondNs);
  EXPECT_EQ(store_->counters().charged_back, 34U);
}

// As where a program makes a limiter for each of its requests.
TEST_F(FallbackToldTest, WhatWasToldOutlivesTheLimiter) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.cost = 30}, kStart);
  decide({.cost = 0}, kStart);
  int others = 0;
  const auto go_on_after = [&](int names) {
    for (int i = 0; i < names; ++i) use("fixed_window 1/1h", std::to_string(++others));
    use("fixed_window 40/1h");
  };
  for (int round = 0; round < 3; ++round) go_on_after(1024);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 10);
  inner_->lose_nothing();
  decide({.key = "told", .cost = 30}, kStart);
  go_on_after(3 * 1024);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "told", .cost = 0}, kStart).remaining, 40) << "they are bounded";
}

TEST_F(FallbackToldTest, WhatIsNotChargedYetOutlivesTheLimiterToo) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.cost = 30}, kStart);
  decide({.cost = 0}, kStart);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart), 10);
  for (int i = 0; i < 3; ++i) {
    space_.reset();
    use("fixed_window 40/1h");
    lose_charges();
    EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 10) << "the store does not know of them";
    inner_->lose_all();
    EXPECT_EQ(admitted(kStart), 0);
  }
  find_again(kStart + ChargeBack::kPause);
  EXPECT_EQ(store_->counters().charged_back, 10U);
  EXPECT_EQ(remaining_in_store(), 0);
}

TEST_F(FallbackToldTest, AChargeThatTheStoreDidNotGetIsSentAgainAfterAPause) {
  wrap({});
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  lose_charges();
  decide({.key = "other"}, kStart);
  find_again(kStart + ChargeBack::kPause - 1);
  EXPECT_EQ(store_->counters().charged_back, 0U);
  find_again(kStart + ChargeBack::kPause);
  EXPECT_EQ(store_->counters().charged_back, 5U);
  EXPECT_EQ(store_->counters().not_charged_back, 0U);
}

// Until then it admits what it lacks once more.
TEST_F(FallbackToldTest, AKeyThatTheStoreChargesAgainIsChargedWithoutAPause) {
  for (const Batch::Mode mode : {Batch::Mode::kEach, Batch::Mode::kTogether}) {
    wrap({}, "fixed_window 40/1h");
    decide_elsewhere({.operation = Operation::kReset}, kStart);
    inner_->lose_all();
    decide({.cost = 30}, kStart);
    lose_charges();
    decide({.key = "other"}, kStart);
    inner_->lose_nothing();
    decide({.cost = 0}, kStart);
    EXPECT_EQ(remaining_in_store(), 40) << "it may refuse what changes the key";
    const Instant later = kStart + ChargeBack::kPauseOfKey;
    submit({{.key = "other"}, {}}, mode, later - 1);
    EXPECT_EQ(remaining_in_store(), 39) << "one more of a busy key would be refused, too";
    submit({{.key = "other"}, {}}, mode, later);
    EXPECT_EQ(remaining_in_store(), 8);
    EXPECT_EQ(store_->counters().charged_back, 30U);
  }
}

TEST_F(FallbackToldTest, AKeyWhoseChargesAreRefusedHoldsUpNoOther) {
  wrap({}, "fixed_window 400/1h");
  inner_->lose_all();
  decide({.cost = 30}, kStart);
  decide({.key = "busy", .cost = 30}, kStart);
  lose_charges();
  decide({.key = "busy"}, kStart);
  inner_->loses = [](const Request& asked) {
    return asked.operation == Operation::kCharge && asked.key == "busy";
  };
  for (int i = 1; i <= 4; ++i) decide({.key = "busy"}, kStart + i * ChargeBack::kPause / 2);
  EXPECT_EQ(remaining_in_store(), 370);
}

// It was sent, and the reply is lost.
TEST_F(FallbackToldTest, WhatTheStoreMayHaveChargedIsNotChargedAgain) {
  wrap({});
  inner_->lose_replies();
  EXPECT_EQ(decide({.cost = 5}, kStart).source, Source::kLocal);
  submit({{.key = "a"}, {.key = "b"}}, Batch::Mode::kTogether);
  decide_all({{.key = "a"}, {.key = "b", .cost = 3}});
  decide({.cost = 6, .operation = Operation::kCharge});
  inner_->says = nullptr;
  find_again();
  EXPECT_EQ(inner_->asked.size(), 1U);
  EXPECT_EQ(store_->counters().not_charged_back, 17U);
}

TEST_F(FallbackToldTest, WhatALimiterThatIsGoneAdmittedIsChargedToo) {
  wrap({}, "fixed_window 40/1h");
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  space_.reset();
  use("token_bucket 10/1h", "another");
  find_again();
  EXPECT_EQ(store_->counters().charged_back, 5U);
  use("fixed_window 40/1h");
  EXPECT_EQ(remaining_in_store(), 35);
}

// Although its states look alike.
TEST_F(FallbackToldTest, AnotherAlgorithmForTheNameBeginsFresh) {
  wrap({}, "token_bucket 40/1h");
  decide({.cost = 30}, kStart);
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  space_.reset();
  use("leaky_bucket 40/1h queue=39");
  find_again();
  EXPECT_EQ(store_->counters().not_charged_back, 5U);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 3}, kStart).remaining, 37);
  find_again();
  EXPECT_EQ(remaining_in_store(), 37);
}

TEST_F(FallbackToldTest, PermitsAreNotCharged) {
  wrap({}, "concurrency 3");
  inner_->lose_all();
  EXPECT_TRUE(decide({.permit = 1}, kStart).allowed);
  inner_->lose_nothing();
  inner_->asked.clear();
  decide({.key = "other", .permit = 2}, kStart);
  EXPECT_EQ(inner_->asked.size(), 1U);
}

class ChargeBackTest : public testing::Test {
 protected:
  static KeyName name(std::uint64_t key) {
    return {.space = 1, .key = {.high = key << 32, .low = key}};
  }
  std::int64_t add(std::uint64_t key, Instant fresh_at, Instant now = 0, std::int64_t units = 2,
                   const std::string& text = "k") {
    ChargeBack::Charge charge{.name = name(key), .limit = nullptr, .key = text, .units = units};
    return charges_.add(charge, now, fresh_at, false);
  }
  std::int64_t take_all(Instant now) {
    std::int64_t units = 0;
    while (!charges_.is_empty()) {
      for (const auto& charge : charges_.take(now)) {
        EXPECT_EQ(charges_.pending(charge.name, now), charge.units) << "until it is charged";
        charges_.settle(charge, charge.units, ChargeBack::Outcome::kOver, now);
        EXPECT_EQ(charges_.pending(charge.name, now), 0);
        units += charge.units;
      }
    }
    return units;
  }

  ChargeBack charges_;
};

TEST_F(ChargeBackTest, IsBounded) {
  std::int64_t lost = 0;
  for (std::uint64_t key = 0; key < ChargeBack::kMaxKeys + 100; ++key) lost += add(key, 50);
  EXPECT_EQ(lost, 200);
  EXPECT_EQ(add(7, 100), 0) << "a key that has a place keeps it";
  EXPECT_EQ(add(ChargeBack::kMaxKeys, 100, 49), 2);
  EXPECT_EQ(add(ChargeBack::kMaxKeys, 100, 50), 0) << "others are fresh";
  EXPECT_EQ(take_all(60), 4 + 2);
  EXPECT_TRUE(charges_.is_empty());
}

TEST_F(ChargeBackTest, FindsTheKeysThatAreFreshSoonerWhenItIsFull) {
  constexpr std::uint64_t kMost = ChargeBack::kMaxKeys;
  for (std::uint64_t i = 0; i <= kMost; ++i) EXPECT_EQ(add(i, 1000), i < kMost ? 0 : 2);
  take_all(0);
  for (std::uint64_t i = 0; i < kMost; ++i) EXPECT_EQ(add(i, 50), 0);
  EXPECT_EQ(add(kMost, 100, 50), 0);
}

// As where the store refuses them, for lack of a permission.
TEST_F(ChargeBackTest, ChargesThatAreTriedAgainDoNotKeepOthersWaiting) {
  for (std::uint64_t i = 0; i < 2 * ChargeBack::kAtOnce; ++i) add(i, 50);
  const auto refused = charges_.take(0);
  EXPECT_EQ(refused.size(), ChargeBack::kAtOnce);
  for (const auto& charge : refused) {
    charges_.settle(charge, charge.units, ChargeBack::Outcome::kNotSent, 0);
  }
  EXPECT_NE(charges_.take(0).at(0).name, refused[0].name);
}

TEST_F(ChargeBackTest, KeepsNoLongKeys) {
  EXPECT_EQ(add(1, 9, 0, 3, std::string(ChargeBack::kMaxKeyBytes + 1, 'k')), 3);
  EXPECT_TRUE(charges_.is_empty());
}

TEST_F(ChargeBackTest, AnAnswerIsForItsOwnChargeOnly) {
  using Outcome = ChargeBack::Outcome;
  add(1, 50);
  const ChargeBack::Charge former = charges_.take(0).at(0);
  charges_.forget(former.name);
  add(1, 50);
  const ChargeBack::Charge latter = charges_.take(0).at(0);
  charges_.settle(former, former.units, Outcome::kNotSent, 1);
  EXPECT_TRUE(charges_.is_empty()) << "it is under way";
  EXPECT_EQ(charges_.pending(latter.name, 1), 2);
  charges_.settle(latter, latter.units, Outcome::kNotSent, 1);
  EXPECT_EQ(charges_.take(1).at(0).units, 2);
}

TEST_F(ChargeBackTest, BeginsAnewOnceTheKeyWasFresh) {
  add(1, 50);
  add(1, 90, 40);
  EXPECT_EQ(take_all(80), 4);
  add(1, 50);
  add(1, 90, 50);
  EXPECT_EQ(take_all(80), 2);
  add(1, 50);
  EXPECT_EQ(take_all(50), 0);
}

TEST_F(ChargeBackTest, SumsDoNotOverflow) {
  for (int i = 0; i < 2; ++i) add(1, 9, 0, kMaxInt64);
  EXPECT_EQ(take_all(1), kMaxInt64);
}

}  // namespace
}  // namespace sluice
