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
  // Nine of 7 s after the one in which it was added, of which 3 s have passed, and two for those
  // whose clocks are behind.
  EXPECT_EQ(strict.lifetime_ns(10 * kSecondNs), (12 * 7 - 3) * kSecondNs);
  EXPECT_EQ(fixed.lifetime_ns(10 * kSecondNs), (3 * 60 - 10) * kSecondNs);
  EXPECT_EQ(strict.answered_by(10 * kSecondNs), 24 * kSecondNs);
  const std::string longest = std::to_string(kMaxDurationNs) + "ns";
  const SubWindows longest_of_all =
      windows_of("sliding_window 5/" + longest + " precision=" + longest);
  EXPECT_EQ(longest_of_all.lifetime_ns(0), kMaxInt64);
  EXPECT_EQ(longest_of_all.answered_by(kEndOfTime - 1), kMaxInt64);
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
  const std::string counter = "sluice:#f60000000000.28333334:login:k";
  for (const std::string full : {"18446744073709551614", "18446744073709551615"}) {
    server.command("set " + counter + " 0 0 20\r\n" + full + "\r\n");
    const auto stands = [&] {
      keys.take("k", 0);  // What is taken back is on its way before this.
      return server.command("mg " + counter + " v\r\n") == "VA 20\r\n" + full + "\r\n";
    };
    EXPECT_FALSE(keys.take("k").allowed);
    EXPECT_TRUE(stands());
    EXPECT_FALSE(keys.take("k", 5).allowed);
    EXPECT_TRUE(stands());
    EXPECT_FALSE(keys.ask(keys.request("k", 5, Operation::kTakeUpTo), kNow).allowed);
    EXPECT_TRUE(stands());
    EXPECT_EQ(keys.ask(keys.request("k", kMaxInt64, Operation::kCharge), kNow).remaining, 0);
    EXPECT_TRUE(stands());
  }
}

TEST(Counted, AChargeGoesIntoDebt) {
  const MemcachedServer server;
  MemcachedStore store(counted(server));
  Keys keys(store, "sliding_window 5/1m");
  EXPECT_EQ(keys.ask(keys.request("k", 8, Operation::kCharge), kNow).remaining, 0);
  EXPECT_FALSE(keys.take("k").allowed);
  EXPECT_EQ(keys.ask(keys.request("k", 4, Operation::kRefund), kNow).remaining, 1);
  // As much as a number holds, and no more, so that no counter begins again at 0.
  for (int i = 0; i < 3; ++i) keys.ask(keys.request("k", kMaxInt64, Operation::kCharge), kNow);
  EXPECT_EQ(keys.ask(keys.request("k", kMaxCount - 1, Operation::kRefund), kNow).remaining, 4);
}

TEST(Counted, TakesUpToWhatIsThere) {
  const MemcachedServer server;
  MemcachedStore store(counted(server));
  Keys keys(store, "fixed_window 5/1m");
  keys.take("k", 3);
  const Request all = keys.request("k", kMaxInt64, Operation::kTakeUpTo);
  EXPECT_EQ(keys.ask(all, kNow).taken, 2);
  const Decision none = keys.ask(all, kNow);
  EXPECT_EQ(none, keys.take("k"));
  EXPECT_FALSE(none.allowed);
  EXPECT_EQ(keys.ask(keys.request("k", 1, Operation::kRefund), kNow).remaining, 1);
}

TEST(Counted, ABlockStandsForAllProcesses) {
  const MemcachedServer server;
  MemcachedStore here(counted(server));
  MemcachedStore there(counted(server));
  Keys mine(here, "fixed_window 5/1m");
  Keys theirs(there, "fixed_window 5/1m");
  mine.take("k", 2);
  EXPECT_EQ(mine.ask(mine.block("k", 10 * kSecondNs), kNow).remaining, 0);
  const Decision denied = theirs.take("k");
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.retry_after, 10s);
  EXPECT_FALSE(theirs.ask(theirs.request("k", 9, Operation::kTakeUpTo), kNow).allowed);
  EXPECT_TRUE(theirs.ask(theirs.request("k", 1, Operation::kCharge), kNow).allowed);
  // The later end stands.
  EXPECT_EQ(theirs.ask(theirs.block("k", kSecondNs), kNow).reset_after, 60s);
  EXPECT_EQ(theirs.take("k").retry_after, 10s);
  EXPECT_EQ(theirs.take("k", 1, kNow + 10 * kSecondNs).remaining, 1);
  theirs.ask(theirs.block("k", 20 * kSecondNs), kNow);
  EXPECT_EQ(theirs.reset("k").remaining, 5);
  EXPECT_EQ(mine.take("k").remaining, 4);
}

TEST(Counted, AForeignBlockFailsAlone) {
  const MemcachedServer server;
  MemcachedStore store(counted(server));
  Keys keys(store, "fixed_window 5/1m");
  for (const std::string text : {"hello", "18446744073709551615"}) {
    server.command("set sluice:#block:login:bad 0 0 " + std::to_string(text.size()) + "\r\n" +
                   text + "\r\n");
    for (const Request& request :
         {keys.request("bad"), keys.request("bad", 0), keys.block("bad", kSecondNs)}) {
      try {
        keys.ask(request, kNow);
        ADD_FAILURE() << "it was answered";
      } catch (const StoreError& error) {
        EXPECT_THAT(error.what(), HasSubstr("'sluice:#block:login:bad' holds no number"));
      }
    }
    EXPECT_EQ(keys.take("k", 0).remaining, 5);
    EXPECT_EQ(keys.reset("bad").remaining, 5);
    EXPECT_EQ(keys.take("bad").remaining, 4);
  }
}

// Whoever blocks at the same time: the latest end stands.
TEST(Counted, OfBlocksThatRaceTheLatestStands) {
  const MemcachedServer server;
  std::array<std::unique_ptr<MemcachedStore>, 2> stores;
  for (auto& store : stores) store = std::make_unique<MemcachedStore>(counted(server));
  for (int round = 0; round < 20; ++round) {
    const std::string key = "k" + std::to_string(round);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        Keys keys(*stores.at(static_cast<std::size_t>(thread % 2)), "fixed_window 5/1h");
        for (int i = 0; i < 5; ++i) {
          keys.ask(keys.block(key, (1 + (thread + i) % 4) * kSecondNs), kNow);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(Keys(*stores[0], "fixed_window 5/1h").take(key).retry_after, 4s);
  }
}

TEST(Counted, AReplayRemovesItsCounters) {
  const MemcachedServer server;
  MemcachedOptions replay = counted(server);
  replay.virtual_time = true;
  {
    MemcachedStore store(replay);
    Keys keys(store, "sliding_window 5/1s");
    for (int i = 0; i < 100; ++i) keys.take("k", 1, kNow + i * kSecondNs / 10);
    keys.ask(keys.block("k", kSecondNs), kNow);
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
    Request request = keys.request(
        "k", *element<std::int64_t>(0, 1, 1, 2, 3, 100, 4'294'967'296, kMaxInt64),
        *element(Operation::kTake, Operation::kTake, Operation::kTake, Operation::kRefund,
                 Operation::kReset, Operation::kCharge, Operation::kTakeUpTo, Operation::kBlock));
    request.duration_ns = *element<std::int64_t>(1, kSecondNs / 3, 2 * kSecondNs);
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
          if (cost == 3) {
            const Decision some = keys.ask(keys.request("k", 5, Operation::kTakeUpTo), kNow);
            admitted += some.taken;
            denied += some.allowed ? 0 : 1;
          } else if (keys.take("k", cost).allowed) {
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

}  // namespace
}  // namespace sluice::memcached
