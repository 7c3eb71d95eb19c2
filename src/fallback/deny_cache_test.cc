#include "fallback/deny_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/key_hash.h"
#include "sluice/limit.h"
#include "stores/memory/memory_store.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;

constexpr Instant kStart = 1'700'000'000'000'000'000;
constexpr DenyCache::Name kName{.space = 1, .key = {.high = 1, .low = 2}};

struct Ask {
  std::string_view key = "k";
  std::int64_t cost = 1;
  std::int64_t patience_ns = kDefaultPatience;
  std::uint64_t space = 1;
};

class DenyCacheTest : public testing::Test {
 protected:
  Request request(const Ask& ask) const {
    return {.limit = &limit_->definition(),
            .key = ask.key,
            .cost = ask.cost,
            .patience_ns = ask.patience_ns};
  }

  DenyCache::Name name(const Ask& ask) const {
    return {.space = ask.space, .key = hash_key(ask.key, secret_)};
  }

  std::optional<Decision> find(const Ask& ask, Instant now = kStart) {
    Decision decision;
    if (!cache_.denies(name(ask), request(ask), now, decision)) return std::nullopt;
    return decision;
  }

  // Denied, what was sent at kStart, with 4 of 10 remaining, for 100 ns.
  void deny(const Ask& ask, nanoseconds retry_after = nanoseconds(100)) {
    cache_.remember(
        name(ask), request(ask), kStart,
        {.limit = 10, .remaining = 4, .retry_after = retry_after, .reset_after = nanoseconds(500)});
  }

  DenyCache cache_;
  const HashSecret secret_ = HashSecret::random();
  const Limit low_{"token_bucket 10/1h"};
  const Limit high_{"token_bucket 11/1h"};
  const Limit* limit_ = &low_;
};

TEST_F(DenyCacheTest, DeniesAgainUntilRetryAfter) {
  EXPECT_FALSE(find({.cost = 5}));
  deny({.cost = 5});
  EXPECT_EQ(find({.cost = 5}, kStart + 1), (Decision{.source = Source::kCache,
                                                     .limit = 10,
                                                     .remaining = 4,
                                                     .retry_after = nanoseconds(99),
                                                     .reset_after = nanoseconds(499)}));
  EXPECT_EQ(find({.cost = 5}, kStart + 99)->retry_after, nanoseconds(1));
  EXPECT_FALSE(find({.cost = 5}, kStart + 100));
  EXPECT_FALSE(find({.cost = 5}, kStart + 101));
}

TEST_F(DenyCacheTest, WhatRemainsIsLessThanWhatIsAsked) {
  deny({.cost = 2, .patience_ns = 7});
  EXPECT_EQ(find({.cost = 2, .patience_ns = 7})->remaining, 1);
  EXPECT_EQ(find({.cost = 9, .patience_ns = 7})->remaining, 4);
}

TEST_F(DenyCacheTest, MorePatienceHasToAsk) {
  deny({.patience_ns = 50});
  EXPECT_TRUE(find({.patience_ns = 50}));
  EXPECT_TRUE(find({.patience_ns = 0}));
  EXPECT_FALSE(find({.patience_ns = 51}));
  EXPECT_FALSE(find({.patience_ns = kDefaultPatience}));
  deny({.patience_ns = kDefaultPatience});
  EXPECT_TRUE(find({.patience_ns = kDefaultPatience}));
  EXPECT_FALSE(find({.patience_ns = 0}));
}

TEST_F(DenyCacheTest, TellsKeysSpacesAndNumbersApart) {
  deny({});
  EXPECT_FALSE(find({.key = "other"}));
  EXPECT_FALSE(find({.key = ""}));
  EXPECT_FALSE(find({.space = 2}));
  limit_ = &high_;
  EXPECT_FALSE(find({}));
  deny({});
  EXPECT_TRUE(find({}));
  limit_ = &low_;
  EXPECT_FALSE(find({}));
}

TEST_F(DenyCacheTest, RemembersTheLatestDenial) {
  deny({.cost = 5}, nanoseconds(1'000));
  deny({.cost = 2}, nanoseconds(10));
  EXPECT_EQ(find({.cost = 5})->retry_after, nanoseconds(10));
  EXPECT_EQ(find({.cost = 2})->retry_after, nanoseconds(10));
}

TEST_F(DenyCacheTest, RemembersNoDenialWithoutEnd) {
  deny({}, kNever);
  EXPECT_FALSE(find({}));
  deny({}, kNever - nanoseconds(1));
  EXPECT_EQ(find({})->retry_after, nanoseconds(kMaxInt64 - kStart));
}

TEST_F(DenyCacheTest, ResetIsNeverBeforeRetry) {
  deny({}, nanoseconds(900));
  EXPECT_EQ(find({}, kStart + 100)->reset_after, nanoseconds(800));
}

TEST_F(DenyCacheTest, WhatWasSentBeforeAClearIsNotRemembered) {
  deny({});
  cache_.clear(name({}), kStart);
  EXPECT_FALSE(find({}));
  deny({});
  EXPECT_FALSE(find({})) << "it may be older than what cleared it";
  cache_.clear(name({.key = "l"}), kStart - 1);
  deny({.key = "l"});
  EXPECT_TRUE(find({.key = "l"}));
}

TEST_F(DenyCacheTest, IsBounded) {
  constexpr std::size_t kKeys = 3 * DenyCache::kEntries;
  std::vector<std::string> keys(kKeys);
  for (std::size_t i = 0; i < kKeys; ++i) {
    keys[i] = std::to_string(i);
    deny({.key = keys[i]}, nanoseconds(1'000 + i));
  }
  std::size_t remembered = 0;
  std::size_t late = 0;
  for (std::size_t i = 0; i < kKeys; ++i) {
    const bool found = find({.key = keys[i]}).has_value();
    remembered += found ? 1 : 0;
    late += found && i >= kKeys - DenyCache::kEntries ? 1 : 0;
  }
  EXPECT_LE(remembered, DenyCache::kEntries);
  EXPECT_GT(remembered, DenyCache::kEntries * 9 / 10);
  EXPECT_GT(late, DenyCache::kEntries * 3 / 4) << "those that end first give way";
}

// Asks the store only where the cache does not deny, at random instants, and compares.
RC_GTEST_PROP(DenyCache, NeverDeniesWhatTheStoreWouldAdmit, ()) {
  const Limit limit(*rc::gen::element<std::string>(
      "token_bucket 10/1us", "leaky_bucket 10/1us queue=4", "fixed_window 10/1us",
      "sliding_log 10/1us", "sliding_window 10/1us", "sliding_counter 10/1us",
      "token_bucket 10/1us borrow=yes", "token_bucket 10/1us & fixed_window 20/5us"));
  MemoryStore store;
  DenyCache cache;
  const auto space = store.open_space(limit.definition());
  Instant now = kStart;
  const int requests = *rc::gen::inRange(1, 200);
  for (int i = 0; i < requests; ++i) {
    now += *rc::gen::inRange(0, 150);
    const Request request{.limit = &limit.definition(),
                          .space = space.get(),
                          .key = "k",
                          .cost = *rc::gen::inRange(0, 12),
                          .patience_ns = *rc::gen::element<std::int64_t>(-1, -1, 0, 100)};
    Decision cached;
    const bool denied = cache.denies(kName, request, now, cached);
    Decision asked;
    store.decide({&request, 1}, now, {&asked, 1});
    if (denied) {
      RC_ASSERT(!asked.allowed);
      RC_ASSERT(asked.retry_after == kNever || cached.retry_after <= asked.retry_after);
      RC_ASSERT(cached.retry_after > nanoseconds(0));
    } else if (!asked.allowed) {
      cache.remember(kName, request, now, asked);
    }
  }
}

TEST(DenyCache, OneHotKeyAsksTheStoreForOneDenialPerRetryAfter) {
  const Limit limit("token_bucket 1/1ms");
  MemoryStore store;
  DenyCache cache;
  const auto space = store.open_space(limit.definition());
  const Request request{.limit = &limit.definition(), .space = space.get(), .key = "k"};
  int calls = 0;
  int admitted = 0;
  // 100 ms, asked every microsecond: one call is admitted each millisecond, the next one denied.
  for (Instant now = kStart; now < kStart + 100'000'000; now += 1'000) {
    Decision decision;
    if (cache.denies(kName, request, now, decision)) continue;
    ++calls;
    store.decide({&request, 1}, now, {&decision, 1});
    if (decision.allowed) {
      ++admitted;
    } else {
      cache.remember(kName, request, now, decision);
    }
  }
  EXPECT_EQ(admitted, 100);
  EXPECT_EQ(calls, 200);
}

}  // namespace
}  // namespace sluice
