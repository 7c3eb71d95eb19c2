// Limits that are counted: exact=no.

#include "stores/memcached/count.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "stores/memcached/key_state.h"
#include "stores/memcached/keys_under_test.h"
#include "stores/memcached/memcached_store.h"

namespace sluice::memcached {
namespace {

using namespace std::chrono_literals;
using servers::MemcachedServer;
using testing::HasSubstr;

MemcachedOptions counted(const MemcachedServer& server) {
  MemcachedOptions result = options({&server});
  result.exact = false;
  return result;
}

SubWindows windows_of(std::string_view expression) {
  return sub_windows_of(Limit(expression).definition()).value();
}

TEST(SubWindows, AreThoseThatCount) {
  const SubWindows fixed = windows_of("fixed_window 5/1m");
  EXPECT_EQ(fixed.span_ns, 60 * kSecondNs);
  EXPECT_EQ(fixed.before + fixed.after, 0);
  const SubWindows strict = windows_of("sliding_window 5/1m precision=7s");
  EXPECT_EQ(strict.span_ns, 7 * kSecondNs);
  EXPECT_EQ(strict.before, 9);
  EXPECT_EQ(windows_of("sliding_window 5/1m precision=7s strict=no").before, 8);
  // Nine of 7 s after the one in which it was added, of which 3 s have passed.
  EXPECT_EQ(strict.lifetime_ns(10 * kSecondNs), (10 * 7 - 3) * kSecondNs);
}

TEST(SubWindows, OtherLimitsAreJudgedExactly) {
  for (const std::string_view expression :
       {"token_bucket 5/1m", "leaky_bucket 5/1m queue=3", "sliding_log 5/1m",
        "sliding_counter 5/1m", "fixed_window 5/1m anchor=first", "fixed_window 4294967297/1m",
        "sliding_window 4294967297/1m", "fixed_window 5/1m & fixed_window 9/1h"}) {
    EXPECT_FALSE(sub_windows_of(Limit(expression).definition()).has_value()) << expression;
  }
}

TEST(Counted, AnotherWindowIsCountedApart) {
  const MemcachedServer server;
  MemcachedStore store(counted(server));
  EXPECT_EQ(Keys(store, "fixed_window 5/1m").take("k").remaining, 4);
  EXPECT_EQ(Keys(store, "fixed_window 9/1m").take("k").remaining, 7);
  EXPECT_EQ(Keys(store, "fixed_window 5/2m").take("k").remaining, 4);
  EXPECT_EQ(Keys(store, "sliding_window 5/1m").take("k").remaining, 4);
  EXPECT_THAT(server.command("mg sluice:#f60000000000.28333334:login:k v t\r\n"),
              testing::StartsWith("VA 1 t"));
}

TEST(Counted, WhatIsDeniedIsTakenBack) {
  const MemcachedServer server;
  MemcachedStore store(counted(server));
  Keys keys(store, "sliding_window 5/1m");
  EXPECT_TRUE(keys.take("k", 4).allowed);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(keys.take("k", 2).allowed);
  EXPECT_FALSE(keys.take("k", 6).allowed);
  EXPECT_EQ(keys.take("k", 0).remaining, 1);
  EXPECT_TRUE(keys.take("k").allowed);
}

// Whoever's clock is ahead has counted by later sub-windows: they count here as well.
TEST(Counted, UnitsOfAClockThatIsAheadCount) {
  const MemcachedServer server;
  MemcachedStore store(counted(server));
  Keys keys(store, "sliding_window 5/1m precision=6s");
  EXPECT_TRUE(keys.take("k", 4, kNow + 12 * kSecondNs).allowed);
  EXPECT_FALSE(keys.take("k", 2, kNow).allowed);
  EXPECT_EQ(keys.take("k", 0, kNow).remaining, 1);
}

TEST(Counted, AForeignCounterFailsAlone) {
  const MemcachedServer server;
  MemcachedStore store(counted(server));
  Keys keys(store, "fixed_window 5/1m");
  server.command("set sluice:#f60000000000.28333334:login:bad 0 0 5\r\nhello\r\n");
  try {
    keys.take("bad");
    ADD_FAILURE() << "it was answered";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), HasSubstr("non-numeric"));
  }
  EXPECT_EQ(keys.take("k").remaining, 4);
  EXPECT_EQ(keys.reset("bad").remaining, 5);
  EXPECT_EQ(keys.take("bad").remaining, 4);
}

TEST(Counted, ACounterAtItsEndDoesNotBeginAgain) {
  const MemcachedServer server;
  MemcachedStore store(counted(server));
  Keys keys(store, "fixed_window 5/1m");
  server.command("set sluice:#f60000000000.28333334:login:k 0 0 20\r\n18446744073709551000\r\n");
  EXPECT_FALSE(keys.take("k").allowed);
  EXPECT_FALSE(keys.take("k", 5).allowed);
}

TEST(Counted, AReplayRemovesItsCounters) {
  const MemcachedServer server;
  MemcachedOptions replay = counted(server);
  replay.virtual_time = true;
  {
    MemcachedStore store(replay);
    Keys keys(store, "sliding_window 5/1s");
    for (int i = 0; i < 100; ++i) keys.take("k", 1, kNow + i * kSecondNs / 10);
    EXPECT_NE(server.stat("curr_items"), "0");
  }
  EXPECT_EQ(server.stat("curr_items"), "0");
}

// Nobody else asks, and clocks go forwards: the answers are those of compare-and-swap.
RC_GTEST_PROP(CountedProperty, AnswersExactlyWhereNobodyRaces, ()) {
  static const MemcachedServer server;
  static int runs = 0;
  MemcachedOptions own = counted(server);
  own.prefix = "run" + std::to_string(runs++);
  MemcachedStore store(own);
  Keys keys(store, *rc::gen::element<std::string>(
                       "fixed_window 5/1s", "sliding_window 7/1s precision=300ms",
                       "sliding_window 7/1s strict=no", "sliding_window 4294967296/1s"));
  KeyState exact;
  Instant now = *rc::gen::element<Instant>(0, kNow + 123);
  const int steps = *rc::gen::inRange(1, 30);
  for (int i = 0; i < steps; ++i) {
    using rc::gen::element;
    now += *element<std::int64_t>(0, 1, 99'999'999, kSecondNs / 3, kSecondNs, 2 * kSecondNs);
    const Request request =
        keys.request("k", *element<std::int64_t>(0, 1, 1, 2, 3, 100, 4'294'967'296),
                     *element(Operation::kTake, Operation::kTake, Operation::kTake,
                              Operation::kRefund, Operation::kReset));
    RC_ASSERT(keys.ask(request, now) == exact.judge(request, now));
  }
}

// Four threads on two stores take until they are denied, again and again: never more than the limit
// is out, and when all is quiet exactly what is left can be taken.
TEST(Counted, WhoRacesIsNeverAdmittedMoreThanTheLimit) {
  const MemcachedServer server;
  for (const std::string expression : {"fixed_window 2000/1h", "sliding_window 2000/1h"}) {
    std::array<std::unique_ptr<MemcachedStore>, 2> stores;
    for (auto& store : stores) store = std::make_unique<MemcachedStore>(counted(server));
    std::atomic<std::int64_t> admitted = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        Keys keys(*stores.at(static_cast<std::size_t>(thread % 2)), expression);
        for (int denied = 0; denied < 200;) {
          const std::int64_t cost = 1 + (denied + thread) % 3;
          if (keys.take("k", cost).allowed) {
            admitted += cost;
          } else {
            ++denied;
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_LE(admitted, 2'000);
    EXPECT_GE(admitted, 1'900);
    // Whoever has been told of a denial may have units to take back yet, on its way before this.
    for (auto& store : stores) Keys(*store, expression).take("k", 0);
    Keys keys(*stores[0], expression);
    while (keys.take("k").allowed) ++admitted;
    EXPECT_EQ(admitted, 2'000) << expression;
    server.command("flush_all\r\n");
  }
}

// Replies that the test makes.
class CountTest : public testing::Test, protected CountOwner {
 protected:
  void on_decided(Errand&) override { decided_ = true; }
  void on_failed(Errand&, std::string_view why) override { fault_ = why; }
  void on_made(Lane&, const std::string& counter) override { made_ = counter; }
  void on_counted(Count&) override { ended_ = true; }

  void ask() {
    count_.ask({.errand = errand_,
                .windows = windows_of("fixed_window 5/1m"),
                .now = kNow,
                .expiry_s = 60},
               lane_);
  }
  std::string sent() {
    std::string output;
    exchange_ = lane_.next_exchange();
    if (exchange_ != nullptr) exchange_->write(output);
    return output;
  }

  CountTest() {
    lane_.on_up();
    errand_.requests = {&request_, 1};
    errand_.decision = &decision_;
  }

  const Limit limit_{"fixed_window 5/1m", "login"};
  MemcachedSpace space_{"sluice", limit_.definition()};
  const Request request_{.limit = &limit_.definition(), .space = &space_, .key = "k", .cost = 2};
  Decision decision_;
  Errand errand_;
  Lane lane_{{.endpoint = {.host = "a", .port = 1}, .silence = 1h}};
  Count count_{*this};
  Exchange* exchange_ = nullptr;
  bool decided_ = false;
  bool ended_ = false;
  std::string fault_;
  std::string made_;
};

TEST_F(CountTest, AnAdmissionTakesOneTrip) {
  ask();
  EXPECT_EQ(sent(), "ma sluice:#f60000000000.28333334:login:k N60 J2 D2 v O0\r\nmn\r\n");
  exchange_->on_reply("VA 1 O0\r\n2\r\nMN\r\n");
  EXPECT_TRUE(decided_ && ended_);
  EXPECT_EQ(decision_.remaining, 3);
  EXPECT_EQ(made_, "sluice:#f60000000000.28333334:login:k");
}

TEST_F(CountTest, ADenialIsToldBeforeItIsTakenBack) {
  ask();
  sent();
  exchange_->on_reply("VA 1 O0\r\n6\r\nMN\r\n");
  EXPECT_TRUE(decided_);
  EXPECT_FALSE(decision_.allowed || ended_);
  EXPECT_EQ(decision_.remaining, 1);
  EXPECT_EQ(sent(), "ma sluice:#f60000000000.28333334:login:k MD D2 O0\r\nmn\r\n");
  exchange_->on_reply("HD O0\r\nMN\r\n");
  EXPECT_TRUE(ended_);
}

TEST_F(CountTest, UnitsOfOneWhoHasGoneAreTakenBack) {
  ask();
  sent();
  EXPECT_EQ(count_.abandon(errand_), "memcached a:1 did not answer");
  exchange_->on_reply("VA 1 O0\r\n2\r\nMN\r\n");
  EXPECT_THAT(sent(), HasSubstr(" MD D2 "));
  EXPECT_FALSE(decided_);
}

TEST_F(CountTest, AnAdditionWithoutAReplyIsNotRepeated) {
  ask();
  sent();
  exchange_->on_lost(Loss::kUnknown, "it has gone");
  EXPECT_EQ(fault_, "it has gone");
  EXPECT_TRUE(ended_);
  EXPECT_EQ(sent(), "");
}

TEST_F(CountTest, AnAdditionThatNeverLeftIsSentAgain) {
  ask();
  sent();
  exchange_->on_lost(Loss::kUnsent, "it has gone");
  EXPECT_FALSE(ended_);
  EXPECT_THAT(sent(), HasSubstr(" J2 D2 "));
}

}  // namespace
}  // namespace sluice::memcached
