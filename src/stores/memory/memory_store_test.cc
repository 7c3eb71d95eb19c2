#include "stores/memory/memory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/key_hash.h"
#include "stores/memory/limited_keys.h"
#include "stores/memory/lone_table.h"

namespace sluice::memory {
namespace {

using testing::HasSubstr;

TEST(MemoryStore, RejectsTooFewBytes) {
  EXPECT_THROW(MemoryStore({.max_bytes = MemoryStore::kLeastBytes - 1, .table = {}}), StoreError);
  EXPECT_NO_THROW(MemoryStore({.max_bytes = MemoryStore::kLeastBytes, .table = {}}));
}

TEST(MemoryStore, StaysWithinItsBytes) {
  MemoryStore store(small_store());
  LimitedKeys bucket(store, "token_bucket 2/1h");
  LimitedKeys log(store, "sliding_log 50/1h");
  LimitedKeys counter(store, "sliding_counter 2/1h");
  std::size_t most = 0;
  for (int i = 0; i < 15'000; ++i) {
    bucket.take(key_name(static_cast<std::uint64_t>(i)), kStart + i);
    log.take(key_name(static_cast<std::uint64_t>(i / 20)), kStart + i);
    counter.take(key_name(static_cast<std::uint64_t>(i / 2)), kStart + i);
    most = std::max(most, store.used_bytes());
  }
  EXPECT_GT(most, MemoryStore::kLeastBytes / 2);
  EXPECT_LE(most, most_bytes(3));
  EXPECT_GT(store.counters().evicted, 0U);
}

TEST(MemoryStore, ALateSpaceWorksWhenOthersHoldEverything) {
  MemoryStore store(small_store());
  LimitedKeys early(store, "token_bucket 1/1h", "early");
  LimitedKeys late(store, "token_bucket 1/1h", "late");
  for (std::uint64_t i = 0; store.counters().refused_full == 0; ++i) {
    early.take(key_name(i), kStart);
  }
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(late.take(key_name(i), kStart).source, Source::kStore);
    ASSERT_FALSE(late.take(key_name(i), kStart).allowed);
  }
}

TEST(Table, FreesAllItsMemory) {
  for (const auto* limit :
       {"token_bucket 9/1h", "sliding_log 9/1h", "sliding_counter 9/1h & sliding_window 9/1h"}) {
    const auto pool = std::make_shared<Pool>(std::size_t{1} << 24);
    const Limit home(limit);
    {
      Table table(home.definition(), pool, {.secret = HashSecret::fixed()});
      for (std::uint64_t i = 0; i < 6000; ++i) {
        const std::string key = key_name(i / 3);
        Decision decision;
        table.decide_one({.limit = &home.definition(), .space = &table, .key = key},
                         kStart + static_cast<Instant>(i), Clock(), decision);
        ASSERT_TRUE(decision.allowed);
      }
      EXPECT_GT(pool->budget.used_bytes(), 0U);
      EXPECT_EQ(table.size(), 2000U);
    }
    EXPECT_EQ(pool->budget.used_bytes(), 0U) << limit;
  }
}

// Every round uses new keys, and those of the last round have become fresh.
TEST(Table, ChurnOfShortLivedKeysDoesNotGrowIt) {
  for (const auto* limit : {"token_bucket 1/1s", "sliding_log 1/1s"}) {
    LoneTable table(limit, {.max_bytes = std::size_t{1} << 26});
    constexpr std::uint64_t kKeys = 6000;
    std::size_t settled = 0;
    for (std::uint64_t round = 0; round < 30; ++round) {
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        ASSERT_TRUE(
            table
                .take(key_name(round * kKeys + i), kStart + static_cast<Instant>(round) * kSecondNs)
                .allowed);
      }
      if (round == 9) settled = table.used_bytes();
    }
    EXPECT_LE(table.used_bytes(), settled + settled / 4) << limit;
    EXPECT_LE(table.table().size(), 3 * kKeys) << limit;
    EXPECT_EQ(table.evicted(), 0U);
  }
}

TEST(MemoryStore, ABatchIsDecidedAsIfOneAfterTheOther) {
  MemoryStore store(small_store());
  LimitedKeys one(store, "token_bucket 40/1h");
  LimitedKeys other(store, "sliding_log 100/1h");
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < 200; ++i) keys.push_back(key_name(i % 3));
  std::vector<Request> requests;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    requests.push_back((i % 2 == 0 ? one : other).request(keys[i]));
  }
  std::vector<Decision> decisions(requests.size());
  store.decide(requests, kStart, decisions);

  MemoryStore twin(small_store());
  LimitedKeys twin_one(twin, "token_bucket 40/1h");
  LimitedKeys twin_other(twin, "sliding_log 100/1h");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(decisions[i], (i % 2 == 0 ? twin_one : twin_other).take(keys[i], kStart)) << i;
  }
  store.decide({}, kStart, {});
}

TEST(MemoryStore, APlaceFromTheCallersHashFindsTheSameState) {
  MemoryStore store({.max_bytes = std::size_t{1} << 24, .table = {}});
  LimitedKeys one(store, "token_bucket 400/1h");
  LimitedKeys other(store, "sliding_log 400/1h");
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < 200; ++i) {
    keys.push_back(std::string(i % 40, 'k') + std::to_string(i % 20));
  }
  std::vector<Request> requests;
  std::vector<Place> places;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const LimitedKeys& asked = i % 2 == 0 ? one : other;
    requests.push_back(asked.request(keys[i]));
    places.push_back(store.place_of(*asked.space(), hash_key(keys[i], store.secret())));
  }
  store.carry_out(places, requests, kStart);
  store.carry_out({}, {}, kStart);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    LimitedKeys& asked = i % 2 == 0 ? one : other;
    ASSERT_EQ(asked.peek(keys[i], kStart).remaining, 400 - std::ranges::count(keys, keys[i]));
  }
}

TEST(MemoryStore, ReadsItsClockIfNoInstantIsGiven) {
  MemoryStore store(small_store());
  LimitedKeys keys(store, "fixed_window 5/1d anchor=first");
  const Instant before = store.now();
  keys.take("a", kStoreTime);
  const auto reset_ns = keys.peek("a", before).reset_after.count();
  EXPECT_GE(reset_ns, 24 * kHourNs);
  EXPECT_LE(reset_ns, 24 * kHourNs + (store.now() - before));
}

TEST(MemoryStore, ResetForgetsAndRefundReturnsUnits) {
  MemoryStore store(small_store());
  for (const auto* limit :
       {"token_bucket 5/1h", "sliding_log 5/1h", "sliding_counter 5/1h & fixed_window 5/1d"}) {
    LimitedKeys keys(store, limit);
    EXPECT_EQ(keys.refund("never seen", kStart).remaining, 5);
    EXPECT_EQ(keys.reset("never seen", kStart).remaining, 5);
    keys.take("a", kStart, 4);
    EXPECT_EQ(keys.refund("a", kStart, 3).remaining, 4);
    EXPECT_EQ(keys.peek("a", kStart).remaining, 4);
    EXPECT_EQ(keys.reset("a", kStart).remaining, 5);
    EXPECT_EQ(keys.peek("a", kStart).remaining, 5);
    EXPECT_EQ(keys.peek("a", kStart).reset_after.count(), 0);
    EXPECT_EQ(keys.table().size(), 0U);
  }
}

TEST(MemoryStore, LimitsOfOneNameShareTheirKeys) {
  MemoryStore store(small_store());
  LimitedKeys one(store, "token_bucket 5/1h", "login");
  LimitedKeys same(store, "token_bucket 5/1h", "login");
  LimitedKeys other(store, "token_bucket 5/1h", "other");
  LimitedKeys unnamed(store, "token_bucket 5/1h");
  EXPECT_EQ(one.space(), same.space());
  one.take("a", kStart, 2);
  EXPECT_EQ(same.peek("a", kStart).remaining, 3);
  EXPECT_EQ(other.peek("a", kStart).remaining, 5);
  EXPECT_EQ(unnamed.peek("a", kStart).remaining, 5);
}

TEST(MemoryStore, OtherNumbersKeepCompatibleStates) {
  MemoryStore store(small_store());
  struct NewNumbers {
    const char* from;
    const char* to;
    std::int64_t left;
  };
  for (const auto& change : {NewNumbers{"token_bucket 5/1h", "token_bucket 10/1h", 2},
                             NewNumbers{"fixed_window 5/1h", "fixed_window 7/1h", 3},
                             NewNumbers{"sliding_log 5/1d", "sliding_log 9/1d", 5},
                             NewNumbers{"sliding_counter 5/1h & sliding_log 5/1h",
                                        "sliding_counter 8/1h & sliding_log 9/1h", 4}}) {
    SCOPED_TRACE(change.to);
    const std::string name = "n" + std::to_string(change.left);
    LimitedKeys before(store, change.from, name);
    before.take("a", kStart, 4);
    LimitedKeys after(store, change.to, name);
    EXPECT_EQ(after.space(), before.space());
    EXPECT_EQ(after.peek("a", kStart).remaining, change.left);
    EXPECT_TRUE(after.take("a", kStart, change.left).allowed);
    EXPECT_FALSE(after.take("a", kStart).allowed);
    EXPECT_FALSE(before.take("a", kStart).allowed);
  }
}

TEST(MemoryStore, AnotherAlgorithmCannotTakeOverASpaceInUse) {
  MemoryStore store(small_store());
  LimitedKeys keys(store, "token_bucket 5/1h", "login");
  keys.take("a", kStart);
  for (const auto* other : {"sliding_log 5/1h", "token_bucket 5/1h & sliding_log 5/1h"}) {
    try {
      LimitedKeys taken(store, other, "login");
      FAIL() << other << " took over";
    } catch (const StoreError& error) {
      EXPECT_THAT(error.what(), HasSubstr("'login'"));
      EXPECT_THAT(error.what(), HasSubstr("'token_bucket 5/1h'"));
      EXPECT_THAT(error.what(), HasSubstr(std::string("'") + other + "'"));
    }
  }
  LimitedKeys window(store, "fixed_window 5/1h", "window");
  EXPECT_THROW(LimitedKeys(store, "fixed_window 5/2h", "window"), StoreError);
  EXPECT_EQ(keys.peek("a", kStart).remaining, 4);
}

// A space that is not in use can be replaced by one with another algorithm.
TEST(MemoryStore, AnIdleSpaceIsReplacedByAnotherAlgorithm) {
  MemoryStore store(small_store());
  LimitedKeys(store, "token_bucket 5/1h", "login").take("a", store.now() - 2 * kHourNs);
  EXPECT_NO_THROW(LimitedKeys(store, "sliding_log 5/1h", "login"));
}

TEST(MemoryStore, KeepsABoundedNumberOfSpaces) {
  MemoryStore store(small_store());
  std::vector<LimitedKeys> held;
  for (std::size_t i = 0; i < MemoryStore::kMaxSpaces; ++i) {
    held.emplace_back(store, "token_bucket 1/1d", "n" + std::to_string(i));
  }
  held[0].take("a", store.now());
  EXPECT_THROW(LimitedKeys(store, "token_bucket 1/1d", "late"), StoreError);
  EXPECT_EQ(LimitedKeys(store, "token_bucket 1/1d", "n7").space(), held[7].space());

  // Of the spaces that are not in use, one whose keys are all fresh is forgotten.
  held.erase(held.begin());
  held.pop_back();
  LimitedKeys late(store, "token_bucket 1/1d", "late");
  EXPECT_TRUE(late.take("a", store.now()).allowed);
  EXPECT_FALSE(LimitedKeys(store, "token_bucket 1/1d", "n0").take("a", store.now()).allowed);
  // If there is none, another one is: long limits cannot use up all spaces for ever.
  LimitedKeys later(store, "token_bucket 1/1d", "later");
  EXPECT_TRUE(later.take("a", store.now()).allowed);
}

// The memory of a limit without traffic becomes free for other limits.
TEST(MemoryStore, FreshKeysOfOneSpaceMakeRoomInAnother) {
  MemoryStore store(small_store());
  LimitedKeys spike(store, "token_bucket 1/10s", "spike");
  for (std::uint64_t i = 0; i < 60'000; ++i) spike.take(key_name(i), kStart);
  LimitedKeys late(store, "token_bucket 1/1h", "late");
  for (std::uint64_t i = 0; i < 30'000; ++i) {
    ASSERT_TRUE(late.take(key_name(i), kStart + kHourNs).allowed) << "key " << i;
  }
}

}  // namespace
}  // namespace sluice::memory
