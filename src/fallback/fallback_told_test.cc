#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <thread>

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
  // Until a token_bucket 10/10ms is full again, and a denial of 1 ms has ended.
  void await_refill() {
    const Instant began = store_->now();
    while (store_->now() < began + 20 * kMillisecondNs) {
    }
  }
  // The store answers a request for another key.
  void find_again(Instant now = kStart) {
    inner_->lose_nothing();
    inner_->asked.clear();
    decide({.key = "other", .cost = 0}, now);
  }
};

TEST_F(FallbackToldTest, AdmitsNoMoreThanRemainedWhicheverProcessUsedTheUnits) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.cost = 38}, kStart);
  EXPECT_EQ(decide(Ask{}, kStart).remaining, 1);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart), 1);
  EXPECT_EQ(decide({.key = "never asked about", .cost = 40}, kStart).remaining, 0);
}

TEST_F(FallbackToldTest, APeekADenialAndARefundTellToo) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.key = "peeked", .cost = 30}, kStart);
  decide({.key = "peeked", .cost = 0}, kStart);
  decide_elsewhere({.key = "denied", .cost = 36}, kStart);
  EXPECT_FALSE(decide({.key = "denied", .cost = 5}, kStart).allowed);
  decide_elsewhere({.key = "refunded", .cost = 36}, kStart);
  decide({.key = "refunded", .cost = 1, .operation = Operation::kRefund}, kStart);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "peeked", .cost = 0}, kStart).remaining, 10);
  EXPECT_EQ(decide({.key = "denied", .cost = 0}, kStart).remaining, 4);
  EXPECT_EQ(decide({.key = "refunded", .cost = 0}, kStart).remaining, 5);
}

TEST_F(FallbackToldTest, ManyProcessesTogetherAdmitWhatRemained) {
  wrap({.local_share = 4}, "fixed_window 40/1h");
  decide_elsewhere({.cost = 28}, kStart);
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 12);
  inner_->lose_all();
  EXPECT_EQ(admitted(kStart), 3);
}

// The answer to the earlier of two requests is mirrored last.
TEST_F(FallbackToldTest, AnswersOfOneProcessMayOvertakeEachOther) {
  wrap({}, "fixed_window 40/1h");
  for (int i = 0; i < 10; ++i) {
    inner_->on_the_way = [this] { decide({.cost = 2}, kStart); };
    decide(Ask{}, kStart);
  }
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 10);
}

TEST_F(FallbackToldTest, WhatTheStoreDeniedStaysDeniedUntilItsRetryAfter) {
  wrap({}, "token_bucket 10/10ms");
  decide_elsewhere({.operation = Operation::kBlock, .duration_ns = kHourNs});
  EXPECT_FALSE(decide(Ask{}).allowed);
  inner_->lose_all();
  await_refill();
  const Decision denied = decide(Ask{});
  EXPECT_FALSE(denied.allowed);
  EXPECT_GT(denied.retry_after, std::chrono::minutes(59));
  decide({.operation = Operation::kReset});
  EXPECT_TRUE(decide(Ask{}).allowed) << "unless this process resets it";
}

TEST_F(FallbackToldTest, WhatTheStoreDeniedStaysDeniedToAGroup) {
  wrap({}, "token_bucket 10/10ms");
  decide_elsewhere({.operation = Operation::kBlock, .duration_ns = kHourNs});
  decide(Ask{});
  inner_->lose_all();
  await_refill();
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
  EXPECT_EQ(parts[1].retry_after, denied.retry_after);
  EXPECT_TRUE(decide({.key = "other", .cost = 10}).allowed) << "all or nothing";
}

TEST_F(FallbackToldTest, WhatAGroupWasDeniedStaysDenied) {
  wrap({}, "token_bucket 10/10ms");
  decide_elsewhere({.operation = Operation::kBlock, .duration_ns = kHourNs});
  EXPECT_FALSE(decide_all({{.key = "other"}, Ask{}}).allowed);
  inner_->lose_all();
  await_refill();
  EXPECT_GT(decide(Ask{}).retry_after, std::chrono::minutes(59));
  EXPECT_TRUE(decide({.key = "other"}).allowed);
}

TEST_F(FallbackToldTest, ADenialThatTheStoreTookBackIsOver) {
  wrap({.deny_cache = std::chrono::seconds(0)}, "token_bucket 10/10ms");
  decide_elsewhere({.operation = Operation::kBlock, .duration_ns = kHourNs});
  EXPECT_FALSE(decide(Ask{}).allowed);
  decide_elsewhere({.operation = Operation::kReset});
  await_refill();
  EXPECT_TRUE(decide(Ask{}).allowed);
  inner_->lose_all();
  await_refill();
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

TEST_F(FallbackToldTest, AGroupThatIsSubmittedIsToldToo) {
  wrap({}, "fixed_window 40/1d");
  decide_elsewhere({.key = "a", .cost = 30});
  submit({{.key = "a"}, {.key = "b", .cost = 2}}, Batch::Mode::kTogether);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "a", .cost = 0}).remaining, 9);
  EXPECT_EQ(decide({.key = "b", .cost = 0}).remaining, 38);
}

// Its units are expected, and so not taken for those of another process.
TEST_F(FallbackToldTest, AnswersMayOvertakeThatOfAGroup) {
  wrap({}, "fixed_window 40/1h");
  inner_->on_the_way = [this] { decide({.key = "a", .cost = 2}, kStart); };
  decide_all({{.key = "a"}, {.key = "b"}}, kStart);
  EXPECT_THROW(decide_all({{.key = "a"}, {.key = "a", .cost = 9}}, kStart), std::invalid_argument);
  EXPECT_THROW(submit({{.key = "a"}, {.key = "a", .cost = 9}}, Batch::Mode::kTogether),
               std::invalid_argument);
  decide_elsewhere({.key = "a", .cost = 5}, kStart);
  decide({.key = "a", .cost = 0}, kStart);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "a", .cost = 0}, kStart).remaining, 32);
}

// The store never charges it, so it hides nothing of what others use.
TEST_F(FallbackToldTest, IsToldWhileMoreThanTheLimitIsAskedFor) {
  wrap({}, "fixed_window 40/1h");
  decide_elsewhere({.cost = 30}, kStart);
  inner_->loses = [](const Request& asked) { return asked.cost == kMaxInt64; };
  inner_->on_the_way = [&] { decide({.cost = 0}, kStart); };
  EXPECT_FALSE(decide({.cost = kMaxInt64}, kStart).allowed);
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}, kStart).remaining, 10);
}

// Threads of one process are told of the same use by others.
TEST_F(FallbackToldTest, UseByOthersIsChargedOnce) {
  wrap({}, "fixed_window 40/1h");
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("k" + std::to_string(i));
  std::vector<Ask> asks;
  for (const std::string& name : names) asks.push_back({.key = name});
  for (int hour = 0; hour < 6; ++hour) {
    const Instant now = kStart + hour * kHourNs;
    inner_->lose_nothing();
    for (const Ask& ask : asks) decide_elsewhere({.key = ask.key, .cost = 10}, now);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { decide_batch(asks, now); });
    for (std::thread& thread : threads) thread.join();
    inner_->lose_all();
    // Keys that share a count of what is under way are told later.
    for (const Ask& ask : asks) ASSERT_GE(decide({.key = ask.key, .cost = 0}, now).remaining, 26);
  }
}

// Two processes ask at random; then the store is lost to one of them.
RC_GTEST_FIXTURE_PROP(FallbackToldTest, AdmitsNoMoreThanWasTold, ()) {
  wrap({.local_share = *rc::gen::element(1, 1, 3)},
       *rc::gen::element<std::string>(
           "token_bucket 10/1us", "leaky_bucket 10/1us queue=9", "fixed_window 10/1us",
           "fixed_window 10/1us anchor=first", "sliding_log 10/1us", "sliding_window 10/1us",
           "sliding_counter 10/1us", "token_bucket 10/1us & fixed_window 20/5us"));
  Instant now = kStart;
  Decision told;
  for (int i = *rc::gen::inRange(1, 100); i > 0; --i) {
    now += *rc::gen::inRange(0, 150);
    const Ask ask{.cost = *rc::gen::inRange(0, 5),
                  .operation = *rc::gen::element(Operation::kTake, Operation::kTake,
                                                 Operation::kTakeUpTo, Operation::kCharge)};
    if (*rc::gen::arbitrary<bool>()) {
      decide_elsewhere(ask, now);
    } else {
      told = decide(ask, now);
    }
    if (i == 1) told = decide(ask, now);
  }
  inner_->lose_all();
  RC_ASSERT(admitted(now, 20) * 1 <= told.remaining);
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
  EXPECT_LE(decide({.cost = 10}, later).retry_after, std::chrono::seconds(10));
}

TEST_F(FallbackToldTest, AResetIsNotChargedBack) {
  wrap({});
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  decide({.operation = Operation::kReset}, kStart);
  find_again();
  EXPECT_EQ(remaining_in_store(), 10);
}

TEST_F(FallbackToldTest, AChargeWhoseReplyIsLostIsCountedAndNotSentAgain) {
  wrap({});
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  inner_->lose_nothing();
  inner_->says = [](const Request& asked) {
    const bool is_lost = asked.operation == Operation::kCharge;
    return is_lost ? Decision{.source = Source::kUnavailable, .taken = kTakenUnknown}
                   : Decision{.allowed = true, .limit = 10, .remaining = 10};
  };
  decide({.key = "other"}, kStart);
  inner_->says = nullptr;
  EXPECT_EQ(store_->counters().not_charged_back, 5U);
  find_again(kStart + kSecondNs);
  EXPECT_EQ(remaining_in_store(), 10);
  EXPECT_EQ(store_->counters().charged_back, 0U);
}

TEST_F(FallbackToldTest, AChargeThatTheStoreDidNotGetIsSentAgainAfterAPause) {
  wrap({});
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  inner_->loses = [](const Request& asked) { return asked.operation == Operation::kCharge; };
  decide({.key = "other"}, kStart);
  find_again(kStart + ChargeBack::kPause - 1);
  EXPECT_EQ(store_->counters().charged_back, 0U);
  find_again(kStart + ChargeBack::kPause);
  EXPECT_EQ(store_->counters().charged_back, 5U);
  EXPECT_EQ(store_->counters().not_charged_back, 0U);
}

// It was sent, and the reply is lost.
TEST_F(FallbackToldTest, WhatTheStoreMayHaveChargedIsNotChargedAgain) {
  wrap({});
  inner_->says = [](const Request&) {
    return Decision{.source = Source::kUnavailable, .taken = kTakenUnknown};
  };
  EXPECT_EQ(decide({.cost = 5}, kStart).source, Source::kLocal);
  submit({{.key = "a"}, {.key = "b"}}, Batch::Mode::kTogether);
  decide_all({{.key = "a"}, {.key = "b", .cost = 3}});
  inner_->says = nullptr;
  find_again();
  EXPECT_EQ(inner_->asked.size(), 1U);
  EXPECT_EQ(store_->counters().not_charged_back, 11U);
}

// It was sent, and the reply is lost; but the store has denied the like of it before.
TEST_F(FallbackToldTest, WhatTheStoreHasMostLikelyDeniedIsCharged) {
  wrap({}, "fixed_window 10/1h");
  inner_->says = [](const Request&) {
    return Decision{.limit = 10, .remaining = 5, .retry_after = std::chrono::milliseconds(1)};
  };
  EXPECT_FALSE(decide({.key = "busy", .cost = 5}).allowed);
  EXPECT_FALSE(decide({.key = "calm", .cost = 5}).allowed);
  await_refill();
  inner_->says = [](const Request&) {
    return Decision{.source = Source::kUnavailable, .taken = kTakenUnknown};
  };
  EXPECT_TRUE(decide({.key = "busy", .cost = 5}).allowed);
  EXPECT_TRUE(decide({.key = "calm", .cost = 4}).allowed) << "less than was denied";
  inner_->says = nullptr;
  find_again(store_->now());
  EXPECT_EQ(store_->counters().charged_back, 5U);
  EXPECT_EQ(store_->counters().not_charged_back, 4U);
}

TEST_F(FallbackToldTest, WhatALimiterThatIsGoneAdmittedIsCounted) {
  wrap({});
  inner_->lose_all();
  decide({.cost = 5}, kStart);
  space_.reset();
  use("token_bucket 10/1h", "another");
  find_again();
  EXPECT_EQ(store_->counters().not_charged_back, 5U);
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

TEST_F(FallbackToldTest, IsChargedByASubmittedBatchToo) {
  inner_->answers = ScriptedStore::Answers::kWhenTold;
  wrap({}, "fixed_window 40/1d");
  inner_->lose_all();
  submit({{.cost = 5}});
  inner_->answer_all();
  inner_->lose_nothing();
  submit({{.key = "other"}});
  inner_->answer_all();
  inner_->answer_all();
  EXPECT_EQ(store_->counters().charged_back, 5U);
  EXPECT_EQ(decide_elsewhere({.cost = 0}).remaining, 35);
}

class ChargeBackTest : public testing::Test {
 protected:
  std::int64_t add(std::uint64_t key, Instant fresh_at, Instant now = 0) {
    return charges_.add({.high = key, .low = key},
                        {.space = space_, .limit = nullptr, .name = "k", .units = 2}, now,
                        fresh_at);
  }
  std::int64_t take_all(Instant now) {
    std::int64_t units = 0;
    while (!charges_.is_empty()) {
      for (const auto& key : charges_.take(now)) units += key.units;
    }
    return units;
  }

  ChargeBack charges_;
  std::shared_ptr<Space> space_ = std::make_shared<Space>();
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

TEST_F(ChargeBackTest, KeepsNoLongKeys) {
  const std::string name(ChargeBack::kMaxKeyBytes + 1, 'k');
  EXPECT_EQ(charges_.add({}, {.space = space_, .limit = nullptr, .name = name, .units = 3}, 0, 9),
            3);
  EXPECT_TRUE(charges_.is_empty());
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
  for (int i = 0; i < 2; ++i) {
    charges_.add({},
                 {.space = space_,
                  .limit = nullptr,
                  .name = "k",
                  .units = std::numeric_limits<std::int64_t>::max()},
                 0, 9);
  }
  EXPECT_EQ(take_all(1), std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace sluice
