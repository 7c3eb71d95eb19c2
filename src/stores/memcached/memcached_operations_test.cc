// What is asked of a key beyond takes, refunds and resets, against real servers.

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "stores/memcached/key_state.h"
#include "stores/memcached/keys_under_test.h"
#include "stores/memcached/memcached_store.h"

namespace sluice::memcached {
namespace {

using namespace std::chrono_literals;
using servers::MemcachedServer;
using testing::HasSubstr;

std::string refusal_of(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// Two stores on one server, as two processes have them, each asked by two threads.
void race(const MemcachedServer& server, std::string_view expression,
          const std::function<void(Keys& keys, int thread)>& run) {
  std::array<std::unique_ptr<MemcachedStore>, 2> stores;
  for (auto& store : stores) store = std::make_unique<MemcachedStore>(options({&server}));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Keys keys(*stores.at(static_cast<std::size_t>(thread % 2)), expression, "race");
      run(keys, thread);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(MemcachedOperations, AChargeAndABlockStandForAllProcesses) {
  const MemcachedServer server;
  MemcachedStore here(options({&server}));
  MemcachedStore there(options({&server}));
  Keys mine(here, "fixed_window 5/1m & token_bucket 9/1m");
  Keys theirs(there, "fixed_window 5/1m & token_bucket 9/1m");
  EXPECT_EQ(mine.ask(mine.request("k", 7, Operation::kCharge), kNow).remaining, 0);
  EXPECT_EQ(theirs.ask(theirs.request("k", 4, Operation::kRefund), kNow).remaining, 2);
  EXPECT_EQ(mine.ask(mine.request("k", 9, Operation::kTakeUpTo), kNow).taken, 2);
  theirs.ask(theirs.block("k", 300 * kSecondNs), kNow);
  EXPECT_EQ(mine.take("k", 1, kNow + kSecondNs).retry_after, 299s);
  EXPECT_EQ(mine.reset("k").remaining, 5);
  EXPECT_EQ(theirs.take("k").remaining, 4);
}

TEST(MemcachedOperations, AValueIsKeptAsLongAsItsBlock) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "token_bucket 5/1s");
  keys.ask(keys.block("k", 600 * kSecondNs), kStoreTime);
  EXPECT_THAT(server.command("mg sluice:login:k t\r\n"),
              testing::AnyOf("HD t601\r\n", "HD t600\r\n"));
  // A server reads what would be later than 2038 as no date at all.
  keys.ask(keys.block("k", kMaxDurationNs), kStoreTime);
  keys.ask(keys.request("k", kMaxInt64, Operation::kCharge), kStoreTime);
  keys.ask(keys.request("k", 1, Operation::kCharge), kStoreTime);
  EXPECT_FALSE(keys.take("k", 1, kStoreTime).allowed);
}

TEST(MemcachedOperations, PermitsAreSharedByProcesses) {
  const MemcachedServer server;
  MemcachedStore here(options({&server}));
  MemcachedStore there(options({&server}));
  Keys mine(here, "concurrency 2");
  Keys theirs(there, "concurrency 2");
  EXPECT_EQ(mine.ask(mine.lend("k", 1, Operation::kTake), kNow).remaining, 1);
  EXPECT_EQ(theirs.ask(theirs.lend("k", 2, Operation::kTake), kNow).remaining, 0);
  EXPECT_EQ(mine.ask(mine.lend("k", 3, Operation::kTake), kNow).retry_after, 60s);
  EXPECT_TRUE(mine.ask(mine.lend("k", 2, Operation::kRenew), kNow + kSecondNs).allowed);
  EXPECT_TRUE(theirs.ask(theirs.lend("k", 1, Operation::kRelease), kNow).allowed);
  EXPECT_FALSE(theirs.ask(theirs.lend("k", 1, Operation::kRelease), kNow).allowed);
  EXPECT_TRUE(mine.ask(mine.lend("k", 2, Operation::kRelease), kNow).allowed);
  EXPECT_EQ(server.stat("curr_items"), "0");
  EXPECT_EQ(mine.ask(mine.lend("k", 2, Operation::kTake), kNow).remaining, 1);
  EXPECT_EQ(here.watch(nullptr, "k", [] {}), nullptr);
}

TEST(MemcachedOperations, ManyPermitsOfOneKeyTravelTogether) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "concurrency 1000");
  std::vector<Request> requests;
  for (PermitId i = 1; i <= 1'001; ++i) {
    requests.push_back(keys.lend("k", i, Operation::kTake));
  }
  std::vector<Decision> decisions(requests.size());
  store.decide(requests, kNow, decisions);
  EXPECT_EQ(decisions[999].remaining, 0);
  EXPECT_FALSE(decisions[1'000].allowed);
  for (auto& request : requests) request.operation = Operation::kRelease;
  store.decide(requests, kNow, decisions);
  EXPECT_EQ(decisions[999].remaining, 1'000);
  EXPECT_FALSE(decisions[1'000].allowed);
  EXPECT_EQ(server.stat("curr_items"), "0");
}

// Flushed or evicted, the permits that were lent are not known any more: their holders learn it
// when they renew, and meanwhile as many again may be lent.
TEST(MemcachedOperations, PermitsOfAFlushedServerAreHeldNoMore) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "concurrency 1");
  keys.ask(keys.lend("k", 1, Operation::kTake), kNow);
  EXPECT_FALSE(keys.ask(keys.lend("k", 2, Operation::kTake), kNow).allowed);
  EXPECT_EQ(server.command("flush_all\r\n"), "OK\r\n");
  EXPECT_TRUE(keys.ask(keys.lend("k", 2, Operation::kTake), kNow).allowed);
  EXPECT_FALSE(keys.ask(keys.lend("k", 1, Operation::kRenew), kNow).allowed);
  EXPECT_FALSE(keys.ask(keys.lend("k", 3, Operation::kTake), kNow).allowed);
}

TEST(MemcachedOperations, PermitsOfAnEvictedKeyAreHeldNoMore) {
  const MemcachedServer server({.arguments = {"-m", "2"}});
  MemcachedStore store(options({&server}));
  Keys keys(store, "concurrency 1");
  keys.ask(keys.lend("evicted", 1, Operation::kTake), kNow);
  // Items of the same size: a server evicts among those alone.
  const std::string value(37, 'x');
  std::string sets;
  for (int i = 100'000; i < 140'000; ++i) {
    sets += "ms sluice:login:f" + std::to_string(i) + " 37 q\r\n" + value + "\r\n";
  }
  server.command(sets);
  ASSERT_EQ(server.command("mg sluice:login:evicted v\r\n"), "EN\r\n");
  EXPECT_FALSE(keys.ask(keys.lend("evicted", 1, Operation::kRenew), kNow).allowed);
  EXPECT_TRUE(keys.ask(keys.lend("evicted", 2, Operation::kTake), kNow).allowed);
  EXPECT_FALSE(keys.ask(keys.lend("evicted", 3, Operation::kTake), kNow).allowed);
}

TEST(MemcachedOperations, AForeignListOfPermitsFailsAlone) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "concurrency 2");
  server.command("set sluice:login:bad 0 0 5\r\nhello\r\n");
  for (const Operation operation : {Operation::kTake, Operation::kRenew, Operation::kRelease}) {
    EXPECT_THAT(refusal_of([&] { keys.ask(keys.lend("bad", 1, operation), kNow); }),
                HasSubstr("the value of 'sluice:login:bad' is damaged"));
  }
  EXPECT_THAT(refusal_of([&] { keys.ask(keys.block("bad", kSecondNs), kNow); }),
              HasSubstr("is damaged"));
  EXPECT_TRUE(keys.ask(keys.lend("k", 1, Operation::kTake), kNow).allowed);
  EXPECT_EQ(keys.reset("bad").remaining, 2);
  EXPECT_TRUE(keys.ask(keys.lend("bad", 1, Operation::kTake), kNow).allowed);
}

TEST(MemcachedOperations, RefusesMorePermitsThanAnItemHolds) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  EXPECT_NE(store.open_space(Limit("concurrency 32768").definition()), nullptr);
  EXPECT_EQ(refusal_of([&] { store.open_space(Limit("concurrency 32769").definition()); }),
            "memcached store: 'concurrency 32769' keeps up to 32769 permits for a key, but at most "
            "32768 fit into a value");
}

TEST(MemcachedOperations, PermitsAreInNoList) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "concurrency 2");
  const Request request = keys.lend("k", 1, Operation::kTake);
  EXPECT_EQ(refusal_of([&] {
              store.decide_all({&request, 1}, kNow);
            }),
            "permits are acquired one by one, not in a list");
  EXPECT_EQ(keys.take("k", 0).remaining, 2);
}

TEST(MemcachedOperations, NeverMorePermitsThanTheLimitAreHeld) {
  constexpr int kLimit = 3;
  const MemcachedServer server;
  std::atomic<int> held = 0;
  std::atomic<int> most = 0;
  std::atomic<int> granted = 0;
  race(server, "concurrency 3", [&](Keys& keys, int thread) {
    for (PermitId i = 1; i <= 300; ++i) {
      const PermitId permit = i << 8 | static_cast<PermitId>(thread + 1);
      if (!keys.ask(keys.lend("k", permit, Operation::kTake), kStoreTime).allowed) continue;
      const int now_held = ++held;
      int before = most;
      while (before < now_held && !most.compare_exchange_weak(before, now_held)) {
      }
      ++granted;
      if (i % 3 == 0) {
        EXPECT_TRUE(keys.ask(keys.lend("k", permit, Operation::kRenew), kStoreTime).allowed);
      }
      --held;
      EXPECT_TRUE(keys.ask(keys.lend("k", permit, Operation::kRelease), kStoreTime).allowed);
    }
  });
  EXPECT_LE(most, kLimit);
  EXPECT_GT(granted, 300);
  EXPECT_EQ(server.stat("curr_items"), "0");
}

TEST(MemcachedOperations, WhoRacesForTheLastUnitsTakesThemAll) {
  const MemcachedServer server;
  for (const std::string expression : {"token_bucket 2000/1h", "sliding_log 2000/1h"}) {
    std::atomic<std::int64_t> taken = 0;
    race(server, expression, [&](Keys& keys, int thread) {
      for (Decision decision{.allowed = true}; decision.allowed; taken += decision.taken) {
        decision = keys.ask(keys.request("k", 7 + thread, Operation::kTakeUpTo), kNow);
      }
    });
    EXPECT_EQ(taken, 2'000) << expression;
    server.command("flush_all\r\n");
  }
}

TEST(MemcachedOperations, ChargesThatRaceAllCount) {
  const MemcachedServer server;
  race(server, "fixed_window 1000/1h", [&](Keys& keys, int) {
    for (int i = 0; i < 100; ++i) keys.ask(keys.request("k", 2, Operation::kCharge), kNow);
  });
  MemcachedStore store(options({&server}));
  EXPECT_EQ(Keys(store, "fixed_window 1000/1h", "race").take("k", 0).remaining, 200);
}

// The largest values that a limit can have, on a server with an item's usual bound.

constexpr std::int64_t kMost = MemcachedStore::kMaxKept;
// Entries so far apart take the most bytes.
constexpr std::int64_t kStepNs = std::int64_t{73} * 7 * 86'400 * kSecondNs / 40'000;
constexpr Instant kFull = kNow + kMost * kStepNs;

class FullValue : public testing::Test {
 protected:
  // Sets the key's value to that of a key of which one less than the most has been taken.
  void plant(const Limit& limit) {
    KeyState state;
    Request request{.limit = &limit.definition(), .key = "k"};
    for (std::int64_t i = 1; i < kMost; ++i) {
      request.permit = ~static_cast<PermitId>(i);
      ASSERT_TRUE(state.judge(request, kNow + i * kStepNs).allowed);
    }
    std::string value;
    state.write(value);
    const std::string size = std::to_string(value.size());
    ASSERT_EQ(server_.command("ms sluice:login:k " + size + " T3600\r\n" + value + "\r\n"),
              "HD\r\n");
  }

  const MemcachedServer server_;
  MemcachedStore store_{options({&server_})};
};

TEST_F(FullValue, OfALogIsTakenFromAndWritten) {
  const std::string expression = "sliding_log 32768/73w";
  plant(Limit(expression, "login"));
  Keys keys(store_, expression);
  EXPECT_EQ(keys.take("k", 0, kFull).remaining, 1);
  EXPECT_TRUE(keys.take("k", 1, kFull).allowed);
  EXPECT_FALSE(keys.take("k", 1, kFull).allowed);
  EXPECT_EQ(keys.ask(keys.request("k", 1, Operation::kRefund), kFull).remaining, 1);
}

TEST_F(FullValue, OfPermitsIsTakenFromAndWritten) {
  const std::string expression = "concurrency 32768 lease=73w";
  plant(Limit(expression, "login"));
  Keys keys(store_, expression);
  EXPECT_TRUE(keys.ask(keys.lend("k", 1, Operation::kTake), kFull).allowed);
  EXPECT_FALSE(keys.ask(keys.lend("k", 2, Operation::kTake), kFull).allowed);
  EXPECT_EQ(keys.ask(keys.lend("k", ~PermitId{77}, Operation::kRelease), kFull).remaining, 1);
}

}  // namespace
}  // namespace sluice::memcached
