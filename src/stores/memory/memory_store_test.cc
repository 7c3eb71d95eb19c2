#include "stores/memory/memory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/key_hash.h"
#include "testing/memory_keys.h"

namespace sluice::memory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(MemoryStore, RejectsTooFewBytes) {
  EXPECT_THROW(MemoryStore({.max_bytes = MemoryStore::kLeastBytes - 1, .table = {}}), StoreError);
  EXPECT_NO_THROW(MemoryStore({.max_bytes = MemoryStore::kLeastBytes, .table = {}}));
}

TEST(MemoryStore, FreesTheMemoryOfKeysThatAreForgotten) {
  MemoryStore store({.max_bytes = std::size_t{1} << 24, .table = {.secret = HashSecret::fixed()}});
  const std::size_t empty = store.used_bytes();
  for (const auto* limit :
       {"token_bucket 9/1h", "sliding_log 9/1h", "sliding_counter 9/1h & sliding_window 9/1h"}) {
    LimitedKeys keys(store, limit);
    for (std::uint64_t i = 0; i < 3000; ++i) keys.take(key_name(i / 3), kStart);
    EXPECT_EQ(store.table().size(), 1000U);
    EXPECT_GT(store.used_bytes(), empty);
    for (std::uint64_t i = 0; i < 1000; ++i) keys.reset(key_name(i), kStart);
    EXPECT_EQ(store.table().size(), 0U);
    EXPECT_LE(store.used_bytes(), empty + 1024 * 72) << limit;
  }
}

// Every round uses new keys. Those of the last round have become fresh, and keep their slots for a
// second.
TEST(MemoryStore, ChurnOfShortLivedKeysDoesNotGrowIt) {
  for (const auto* limit : {"token_bucket 1/1s", "sliding_log 1/1s"}) {
    MemoryStore store(
        {.max_bytes = std::size_t{1} << 26, .table = {.secret = HashSecret::fixed()}});
    LimitedKeys keys(store, limit);
    constexpr std::uint64_t kKeys = 6000;
    std::size_t settled = 0;
    for (std::uint64_t round = 0; round < 30; ++round) {
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        ASSERT_TRUE(
            keys.take(key_name(round * kKeys + i), kStart + static_cast<Instant>(round) * kSecondNs)
                .allowed);
      }
      if (round == 9) settled = store.used_bytes();
    }
    EXPECT_LE(store.used_bytes(), settled + settled / 4) << limit;
    EXPECT_LE(store.table().size(), 4 * kKeys) << limit;
    EXPECT_EQ(store.counters().evicted, 0U);
  }
}

// There are no new keys that would need room. The others are used for a minute.
TEST(MemoryStore, FreesMemoryWhenMostKeysHaveBecomeFresh) {
  MemoryStore store({.max_bytes = std::size_t{1} << 26, .table = {.secret = HashSecret::fixed()}});
  LimitedKeys soon_fresh(store, "token_bucket 1/1s");
  LimitedKeys live(store, "token_bucket 1/1h burst=100000");
  constexpr std::uint64_t kKeys = 200'000;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    (i % 10 == 0 ? live : soon_fresh).take(key_name(i), kStart);
  }
  const std::size_t before = store.used_bytes();
  constexpr std::int64_t kDecisions = 1'500'000;
  for (std::int64_t i = 0; i < kDecisions; ++i) {
    const auto key = static_cast<std::uint64_t>(i) % (kKeys / 10) * 10;
    live.take(key_name(key), kStart + i * (kMinuteNs / kDecisions));
  }
  EXPECT_LT(store.used_bytes(), before / 4);
  EXPECT_EQ(store.counters().evicted, 0U);
  EXPECT_LE(live.peek(key_name(0), kStart + kMinuteNs).remaining, 100'000 - 70);
}

// Each key is visited every 12 seconds.
TEST(MemoryStore, KeepsTheSlotsOfFreshKeysThatComeBackSoon) {
  MemoryStore store({.max_bytes = std::size_t{1} << 26, .table = {.secret = HashSecret::fixed()}});
  LimitedKeys keys(store, "token_bucket 1/1ms");
  constexpr std::uint64_t kKeys = 10'000;
  Instant now = kStart;
  for (int visit = 0; visit < 20; ++visit) {
    const Instant step = visit == 0 ? 0 : 12 * kSecondNs / static_cast<Instant>(kKeys);
    for (std::uint64_t i = 0; i < kKeys; ++i) keys.take(key_name(i), now += step);
    ASSERT_EQ(store.table().size(), kKeys);
  }
}

TEST(MemoryStore, APlaceFromTheCallersHashFindsTheSameState) {
  MemoryStore store({.max_bytes = std::size_t{1} << 24, .table = {}});
  LimitedKeys one(store, "token_bucket 400/1h");
  LimitedKeys other(store, "sliding_log 400/1h");
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < 200; ++i) {
    keys.push_back(std::string(i % 40, 'k') + std::to_string(i % 20));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const LimitedKeys& asked = i % 2 == 0 ? one : other;
    Decision decision;
    const Request request = asked.request(keys[i]);
    const KeyHash hash = hash_key(keys[i], store.table().options().secret);
    const auto place = store.table().place_of(memory::MemorySpace::of(request), hash);
    store.table().decide_at(place, request, kStart, decision);
    ASSERT_TRUE(decision.allowed);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    LimitedKeys& asked = i % 2 == 0 ? one : other;
    ASSERT_EQ(asked.peek(keys[i], kStart).remaining, 400 - std::ranges::count(keys, keys[i]));
  }
}

TEST(MemoryStore, WhatCountsOfEachPartCanBeReplaced) {
  MemoryStore store;
  LimitedKeys keys(store, "token_bucket 10/1h & sliding_log 20/1h & fixed_window 30/1h");
  const auto place = place_of(store, keys, "k");
  std::vector<Decision> parts(3);
  const auto expect_remaining = [&](std::int64_t bucket, std::int64_t log, std::int64_t window,
                                    Instant now = kStart) {
    Request peek = keys.request("k");
    peek.cost = 0;
    peek.parts = parts;
    Decision whole;
    store.decide({&peek, 1}, now, {&whole, 1});
    EXPECT_EQ(parts[0].remaining, bucket);
    EXPECT_EQ(parts[1].remaining, log);
    EXPECT_EQ(parts[2].remaining, window);
  };
  using memory::Used;
  const std::vector<Used> all{
      {.at = kStart, .units = 3}, {.at = kStart - kHourNs / 2, .units = 4}, {.at = kStart}};
  store.table().set_used(place, keys.request("k"), all);
  expect_remaining(7, 16, 30);
  keys.take("k", kStart, 2);
  expect_remaining(5, 14, 28);
  store.table().set_used(place, keys.request("k"), all);
  expect_remaining(7, 16, 28);
  expect_remaining(10, 20, 28, kStart + kHourNs / 2);
  const std::vector<Used> last{{}, {}, {.at = kStart, .units = 31}};
  store.table().set_used(place, keys.request("k"), last);
  expect_remaining(7, 16, 0);
  const std::vector<Used> none(3, Used{.at = kStart, .units = 0});
  store.table().set_used(place, keys.request("k"), none);
  expect_remaining(10, 20, 30);
}

TEST(MemoryStore, ABlockRemainsWhenWhatCountsIsReplaced) {
  MemoryStore store;
  LimitedKeys keys(store, "fixed_window 10/1h");
  keys.block("k", kStart, kSecondNs);
  const auto place = place_of(store, keys, "k");
  const memory::Used used{.at = kStart, .units = 3};
  store.table().set_used(place, keys.request("k"), {&used, 1});
  EXPECT_EQ(keys.peek("k", kStart).remaining, 0);
  EXPECT_EQ(keys.peek("k", kStart + kSecondNs).remaining, 7);
  store.table().unblock(place);
  EXPECT_EQ(keys.peek("k", kStart).remaining, 7);
  store.table().unblock(place_of(store, keys, "never seen"));
}

TEST(MemoryStore, EndsTheLatestBlockThereIs) {
  MemoryStore store;
  LimitedKeys keys(store, "fixed_window 10/1h");
  keys.block("k", kEndOfTime - 1, kMaxDurationNs);
  store.table().unblock(place_of(store, keys, "k"));
  EXPECT_TRUE(keys.take("k", kEndOfTime - 1).allowed);
}

TEST(MemoryStore, AKeyWhoseUnitsAreReplacedDoesNotGiveWayToItself) {
  for (const auto* limit : {"sliding_log 5/1h", "sliding_counter 5/1h", "sliding_window 5/1h",
                            "token_bucket 5/1h & fixed_window 5/1h"}) {
    MemoryStore store(small_store());
    LimitedKeys keys(store, limit);
    int known = 0;
    while (store.counters().evicted == 0) keys.take(key_name(known++), kStart);
    for (int i = 0; i < 200; ++i) {
      const std::string key = "new" + std::to_string(i);
      const auto place = place_of(store, keys, key);
      const std::vector<memory::Used> all(keys.limit().parts.size(), {.at = kStart, .units = 5});
      store.table().set_used(place, keys.request(key), all);
      ASSERT_EQ(keys.peek(key, kStart).remaining, 0) << limit << ", " << key;
    }
  }
}

/// What a batch has become that the store has completed within submit().
struct Completed {
  std::vector<bool> allowed;
  std::string error;
};

Completed submit(MemoryStore& store, const std::vector<Request>& requests, Batch::Mode mode) {
  std::optional<Completed> completed;
  auto batch = std::make_unique<Batch>(requests, mode, kStart);
  batch->completion = [&](Batch& done) {
    completed.emplace().error = done.error();
    for (const Decision& decision : done.decisions())
      completed->allowed.push_back(decision.allowed);
  };
  store.submit(std::move(batch));
  return completed.value();
}

TEST(MemoryStore, CompletesASubmittedBatchAtOnce) {
  MemoryStore store(small_store());
  LimitedKeys keys(store, "token_bucket 2/1h");
  const Completed each = submit(store, {keys.request("a"), keys.request("b", 3), keys.request("a")},
                                Batch::Mode::kEach);
  EXPECT_THAT(each.allowed, ElementsAre(true, false, true));
  EXPECT_EQ(each.error, "");
  const Completed together =
      submit(store, {keys.request("b"), keys.request("a")}, Batch::Mode::kTogether);
  EXPECT_THAT(together.allowed, ElementsAre(false)) << "one answer to both";
  EXPECT_EQ(keys.peek("b", kStart).remaining, 2);
}

// Without room it loses no key in virtual time.
TEST(MemoryStore, SaysWhyASubmittedBatchIsNotAnswered) {
  MemoryOptions options = small_store();
  options.table.forget = false;
  MemoryStore store(options);
  LimitedKeys keys(store, "token_bucket 2/1h");
  std::string key;
  const auto fill = [&] {
    for (std::uint64_t i = 0; i < 1'000'000; ++i) keys.take(key = key_name(i), kStart);
  };
  EXPECT_THROW(fill(), StoreError);
  const Completed late =
      submit(store, {keys.request("key0"), keys.request(key)}, Batch::Mode::kEach);
  EXPECT_THAT(late.allowed, ElementsAre(true, false));
  EXPECT_THAT(late.error, HasSubstr("is full"));
}

}  // namespace
}  // namespace sluice::memory
