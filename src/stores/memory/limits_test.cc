// Limits and their spaces: how many there may be, what they may take, and when they are forgotten.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "sluice/health.h"
#include "testing/memory_keys.h"

namespace sluice::memory {
namespace {

using testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string numbered(std::string_view expression, std::size_t number) {
  return std::string(expression) + " burst=" + std::to_string(number + 1);
}

// Opens limits one after the other, without holding them, and uses up one key of each, until the
// store refuses one. Returns how many there are.
std::size_t open_until_refused(MemoryStore& store, std::size_t most) {
  for (std::size_t i = 0; i < most; ++i) {
    try {
      LimitedKeys keys(store, numbered("token_bucket 1/1d", i));
      EXPECT_TRUE(keys.take("a", store.now(), static_cast<std::int64_t>(i) + 1).allowed);
    } catch (const StoreError& error) {
      EXPECT_THAT(error.what(), HasSubstr("no room for another limit"));
      return i;
    }
  }
  return most;
}

TEST(Limits, AreRefusedIfThereIsNoRoom) {
  MemoryStore store({.max_bytes = kMiB, .table = {}});
  LimitedKeys named(store, "token_bucket 1/1d", "named");
  const auto health = [&store] {
    StoreHealth now;
    store.add_health(now);
    return now;
  };
  EXPECT_EQ(health().refused, 0U);
  const std::size_t opened = open_until_refused(store, 20'000);
  EXPECT_GT(opened, 3'000U);
  EXPECT_LT(opened, 20'000U);
  EXPECT_THROW(LimitedKeys(store, "token_bucket 9/1d"), StoreError);
  EXPECT_EQ(health().refused, 2U);
  EXPECT_EQ(health().refusal, "there is no room for another limit");
  for (std::size_t i = 0; i < opened; ++i) {
    LimitedKeys keys(store, numbered("token_bucket 1/1d", i));
    ASSERT_FALSE(keys.take("a", store.now()).allowed) << "limit " << i << " was forgotten";
  }
  EXPECT_EQ(LimitedKeys(store, "token_bucket 1/1d", "named").space(), named.space());
  EXPECT_TRUE(named.take("a", store.now()).allowed);
  // A limit whose key is forgotten makes room for another.
  LimitedKeys(store, numbered("token_bucket 1/1d", 7)).reset("a", store.now());
  EXPECT_NO_THROW(LimitedKeys(store, "token_bucket 9/1d"));
}

TEST(Limits, WithoutANameLeaveRoomForNamesAndForNumbersThatVary) {
  MemoryStore store({.max_bytes = kMiB, .table = {}});
  const auto space = store.open_space(varying("token_bucket 16/1d"));
  open_until_refused(store, 20'000);
  EXPECT_THROW(LimitedKeys(store, "token_bucket 9/1d"), StoreError);
  for (std::size_t i = 0; i < 256; ++i) {
    LimitedKeys named(store, "token_bucket 1/1d", "named" + std::to_string(i));
    EXPECT_TRUE(named.take("a", store.now()).allowed);
  }
  for (int i = 0; i < 256; ++i) {
    const std::string key = "k" + std::to_string(i);
    const Limit numbers(numbered("token_bucket 1/1d", static_cast<std::size_t>(i)));
    const Request request{.limit = &numbers.definition(), .space = space.get(), .key = key};
    EXPECT_TRUE(store.decide_one(request).allowed) << i;
  }
}

// A key with numbers of its own uses up so much of its burst.
Decision take_of_own(MemoryStore& store, Space& space, std::size_t number, std::size_t burst,
                     std::size_t units, Instant now = kStart) {
  LimitDefinition limit;
  limit.parts = {Part<TokenBucket>{{*bucket_params(1, kMinuteNs, static_cast<int>(burst))}}};
  const auto cost = static_cast<std::int64_t>(units);
  const std::string key = key_name(number);
  return store.decide_one({.limit = &limit, .space = &space, .key = key, .cost = cost}, now);
}

// As with CL.THROTTLE, of which any call may name numbers that were never seen.
TEST(NumbersOfEachKey, LeaveRoomForAnyNewKeyAndAreThoseByWhichItIsJudged) {
  constexpr std::size_t kDenying = 30'000;
  MemoryStore store({.max_bytes = 4 * kMiB, .table = {.secret = HashSecret::fixed()}});
  const auto space = store.open_space(varying("token_bucket 1/1s"));
  const auto use_up = [&](std::size_t i) { return take_of_own(store, *space, i, i + 1, i + 1); };
  for (std::size_t i = 0; i < kDenying; ++i) ASSERT_TRUE(use_up(i).allowed) << i;
  EXPECT_EQ(store.counters().evicted, 0U) << "there was room for all";
  // More keys than there is room for, each with some units left.
  for (std::size_t i = kDenying; store.counters().evicted < 50'000; ++i) {
    ASSERT_TRUE(take_of_own(store, *space, i, i + 1, i / 2).allowed) << i;
  }
  for (std::size_t i = 0; i < kDenying; ++i) ASSERT_FALSE(use_up(i).allowed) << i;
}

// A key with one unit left does not deny, so it gives way to a new one.
TEST(NumbersOfEachKey, MayAllDiffer) {
  MemoryStore store(small_store());
  const auto space = store.open_space(varying("token_bucket 1/1s"));
  for (std::size_t i = 0; store.counters().evicted < 100'000; ++i) {
    ASSERT_TRUE(take_of_own(store, *space, i, 2 + i, 1 + i).allowed) << i;
  }
}

// No key is judged longer than it denies, though the largest are used up to one unit.
TEST(NumbersOfEachKey, TellWhenItDeniesNoMore) {
  constexpr std::size_t kDenying = 20'000;
  MemoryStore store(small_store());
  const auto space = store.open_space(varying("token_bucket 1/1s"));
  Instant now = kStart;
  const auto take = [&](std::size_t number, std::size_t burst, std::size_t units) {
    return take_of_own(store, *space, number, burst, units, now);
  };
  for (std::size_t i = 0; i < kDenying; ++i) ASSERT_TRUE(take(i, 2 + i, 2 + i).allowed) << i;
  std::size_t next = kDenying;
  for (; store.counters().without_room < 100; ++next) take(next, 1, 1);
  now += kMinuteNs;
  for (const std::size_t last = next + 50'000; next < last; ++next) {
    ASSERT_TRUE(take(next, 2 + next, 2 + next / 2).allowed) << next;
  }
  EXPECT_GT(store.counters().evicted, 10'000U);
}

struct Kind {
  const char* before;  // An expression is this, a count, and the rest.
  const char* after;
  bool is_exact;  // Not where the numbers also say how long units count.
};

// Random operations, each by other numbers. Then the key denies until the same instant by the
// numbers of its last charge, or of its last denial of everything, and by those that it has.
TEST(NumbersOfEachKey, AreThoseOfTheLastChargeOrDenial) {
  std::mt19937_64 random(5);
  for (const Kind& kind :
       {Kind{"token_bucket ", "/10s", true}, Kind{"token_bucket 7/10s borrow=yes burst=", "", true},
        Kind{"leaky_bucket 3/10s queue=", "", true}, Kind{"fixed_window ", "/10s", true},
        Kind{"sliding_log ", "/10s", true}, Kind{"sliding_window ", "/10s precision=2s", false},
        Kind{"sliding_counter ", "/10s", true}, Kind{"concurrency ", " lease=5s", true},
        Kind{"fixed_window 4/5s & token_bucket ", "/10s", true}}) {
    SCOPED_TRACE(kind.before);
    MemoryStore store(small_store());
    std::vector<LimitedKeys> plans;
    for (int count = 1; count <= 6; ++count) {
      plans.emplace_back(store, varying(kind.before + std::to_string(count) + kind.after, "plans"));
    }
    LimitTable& limits = store.table().limits();
    const bool lent = lends(plans[0].limit());
    const LimitedKeys* last = nullptr;
    int denials = 0;
    Instant now = kStart;
    for (int i = 0; i < 3'000; ++i, now += static_cast<Instant>(random() % kSecondNs)) {
      LimitedKeys& plan = plans[random() % plans.size()];
      const auto operation = lent
                                 ? std::vector{Operation::kTake, Operation::kTake,
                                               Operation::kRenew, Operation::kRelease}[random() % 4]
                             : i % 3 == 0 ? Operation::kTakeUpTo
                             : i % 7 == 0 ? Operation::kCharge
                                          : Operation::kTake;
      Request request =
          plan.request("k", lent ? 1 : 1 + static_cast<std::int64_t>(random() % 3), operation);
      request.permit = 1 + random() % 6;
      const Decision decision = store.decide_one(request, now);
      if (decision.allowed || decision.remaining == 0) last = &plan;
      place_of(store, plan, "k").shard->visit_all([&](const Slot& slot) {
        for (const Instant then : {now, now + kSecondNs, now + 3 * kSecondNs, now + kMinuteNs}) {
          const bool denies = standing(last->limit().parts, slot.cell, then).denies;
          LimitTable::OwnParts room;
          const bool is_told = standing(limits.own_parts(slot.limit, room), slot.cell, then).denies;
          denials += denies ? 1 : 0;
          ASSERT_TRUE(is_told == denies || (is_told && !kind.is_exact)) << i << " " << denies;
        }
      });
    }
    EXPECT_GT(denials, 500);
  }
}

// More sets of numbers than there is room for, of many spaces, as with INCREX: no key that denies
// gives way, though the numbers of its space are larger, and other limits have room left.
TEST(NumbersOfEachKey, LeaveRoomForOtherLimits) {
  constexpr std::size_t kSpaces = 40;
  MemoryStore store({.max_bytes = 4 * kMiB,
                     .table = {.secret = HashSecret::fixed()},
                     .caller_clock = [] { return kStart; }});
  std::vector<std::shared_ptr<Space>> spaces;
  for (std::size_t i = 0; i < kSpaces; ++i) {
    spaces.push_back(store.open_space(varying("token_bucket 1000000/1s", "s" + std::to_string(i))));
  }
  std::vector<std::int64_t> bursts;
  for (std::int64_t burst = 1; burst < (std::int64_t{1} << 40); burst += 1 + burst / 64) {
    bursts.push_back(burst);
  }
  const auto use_up = [&](std::size_t i) {
    const std::int64_t burst = bursts[i / kSpaces];
    LimitDefinition limit;
    limit.parts = {Part<TokenBucket>{{*bucket_params(1, 1'000'000, burst)}}};
    const std::string key = key_name(i);
    return store.decide_one(
        {.limit = &limit, .space = spaces[i % kSpaces].get(), .key = key, .cost = burst}, kStart);
  };
  for (std::size_t i = 0; i < bursts.size() * kSpaces; ++i) ASSERT_TRUE(use_up(i).allowed) << i;
  for (int i = 0; i < 256; ++i) {
    LimitedKeys named(store, "token_bucket 1/1d", "named" + std::to_string(i));
    EXPECT_TRUE(named.take("a", kStart).allowed);
    LimitedKeys unnamed(store, numbered("token_bucket 1/1d", i));
    EXPECT_TRUE(unnamed.take("a", kStart).allowed);
  }
  LimitedKeys others(store, "token_bucket 5/1d", "others");
  for (std::size_t i = 0; store.counters().evicted < 1'000; ++i) others.take(key_name(i), kStart);
  for (std::size_t i = 0; i < bursts.size() * kSpaces; ++i) ASSERT_FALSE(use_up(i).allowed) << i;
}

// A key denies little longer by rounded numbers than by its own, and not until it is fresh.
TEST(NumbersOfEachKey, AreRoundedWhereThereAreTooMany) {
  constexpr std::size_t kBurst = 100'000;
  MemoryStore store({.max_bytes = 2 * kMiB, .table = {.secret = HashSecret::fixed()}});
  const auto others = store.open_space(varying("token_bucket 1/1s", "others"));
  const auto space = store.open_space(varying("token_bucket 1/1s"));
  for (std::size_t i = 10 * kBurst; i < 10 * kBurst + 25'000; ++i) {
    ASSERT_TRUE(take_of_own(store, *others, i, i, i).allowed) << i;
  }
  std::size_t next = kBurst;
  for (; store.counters().without_room < 1'000; ++next) {
    take_of_own(store, *space, next, next, next);
  }
  const Instant later = kStart + static_cast<Instant>(next / 60) * kMinuteNs;
  for (const std::size_t last = next + 2'000; next < last; ++next) {
    ASSERT_TRUE(take_of_own(store, *space, next, next, next, later).allowed) << next;
  }
}

// As when a client sends ever-new numbers while a server reads a new configuration, with overrides.
TEST(NumbersOfEachKey, LeaveRoomForSpacesThatBeginToVary) {
  MemoryStore store({.max_bytes = 4 * kMiB, .table = {.secret = HashSecret::fixed()}});
  const auto space = store.open_space(varying("token_bucket 1/1s"));
  std::size_t key = 0;
  const auto use_up_new = [&](std::size_t count) {
    for (const std::size_t last = key + count; key < last; ++key) {
      ASSERT_TRUE(take_of_own(store, *space, key, 2 + key, 2 + key).allowed) << key;
    }
  };
  use_up_new(30'000);
  std::vector<std::shared_ptr<Space>> named;
  for (int i = 0; i < 256; ++i) {
    named.push_back(store.open_space(varying("token_bucket 5/1d", "named" + std::to_string(i))));
    use_up_new(256);
  }
}

TEST(NumbersOfEachKey, OfSeveralPartsHaveABound) {
  constexpr std::int64_t kDenying = 30'000;
  MemoryStore store({.max_bytes = 8 * kMiB, .table = {.secret = HashSecret::fixed()}});
  const auto space = store.open_space(varying("token_bucket 99/1m & leaky_bucket 99/1m queue=99"));
  const auto use_up = [&](std::int64_t i) {
    const std::int64_t burst = 1 + i % 200;
    const std::int64_t queue = 1 + i / 200;
    LimitDefinition limit;
    limit.parts = {Part<TokenBucket>{{*bucket_params(1, kSecondNs, burst)}},
                   Part<LeakyBucket>{*bucket_params(1, kSecondNs, queue)}};
    const std::string key = key_name(static_cast<std::uint64_t>(i));
    const std::int64_t cost = std::min(burst, queue);
    return store.decide_one({.limit = &limit, .space = space.get(), .key = key, .cost = cost},
                            kStart);
  };
  for (std::int64_t i = 0; i < kDenying; ++i) ASSERT_TRUE(use_up(i).allowed) << i;
  LimitedKeys others(store, "token_bucket 5/1d");
  for (std::size_t i = 0; store.counters().evicted < 10'000; ++i) others.take(key_name(i), kStart);
  for (std::int64_t i = 0; i < kDenying; ++i) ASSERT_FALSE(use_up(i).allowed) << i;
}

TEST(Limits, ThatAreRefusedLeaveTheFormerOneAsItIs) {
  MemoryStore store({.max_bytes = kMiB, .table = {}});
  LimitedKeys bucket(store, "token_bucket 1/1h", "login");
  EXPECT_TRUE(bucket.take("k").allowed);
  std::vector<LimitedKeys> named;
  const auto open_many = [&] {
    while (named.size() < 20'000) {
      named.emplace_back(store, "token_bucket 1/1h", "named" + std::to_string(named.size()));
    }
  };
  EXPECT_THROW(open_many(), StoreError);
  const Limit log("sliding_log 1/1h", "login");
  EXPECT_THROW(store.replace_space(bucket.space(), log.definition()), StoreError);
  EXPECT_THAT([&] { store.open_space(log.definition()); },
              testing::ThrowsMessage<StoreError>(HasSubstr("are those of 'token_bucket 1/1h',")));
  EXPECT_EQ(store.open_space(bucket.limit()), bucket.space());
  EXPECT_FALSE(bucket.take("k").allowed);
}

TEST(Limits, AreForgottenWithTheirLastKey) {
  MemoryStore store({.max_bytes = kMiB, .table = {}});
  LimitedKeys held(store, "token_bucket 1000000/1s", "held");
  held.take("a", store.now());
  for (std::size_t i = 0; i < 30'000; ++i) {
    LimitedKeys keys(store, numbered("token_bucket 1000000/1s", i));
    ASSERT_TRUE(keys.take("a", store.now()).allowed);  // Fresh after a microsecond.
  }
  EXPECT_EQ(store.counters().evicted, 0U);
  EXPECT_EQ(LimitedKeys(store, "token_bucket 1000000/1s", "held").space(), held.space())
      << "not while a caller holds it";
}

// Keys change between numbers of one limit, and take over the slots of keys of others.
TEST(Limits, WhoseNumbersVaryAreForgottenWithTheirLastKey) {
  Instant now = kStart;
  MemoryStore store({.max_bytes = kMiB, .table = {}, .caller_clock = [&] { return now; }});
  for (std::size_t i = 0; i < 10'000; ++i, now += kMinuteNs) {
    const std::string name = "named" + std::to_string(i);
    LimitedKeys few(store, varying("fixed_window 1/1s", name));
    LimitedKeys many(store, varying("fixed_window 9/1s", name));
    ASSERT_TRUE(few.take(key_name(i), now).allowed);
    ASSERT_TRUE(many.take(key_name(i), now).allowed);
  }
}

// None of these keys denies, and none becomes fresh.
TEST(Limits, ThatNoCallerHoldsGiveWayIfNoneOfTheirKeysDenies) {
  MemoryStore store({.max_bytes = kMiB, .table = {}});
  LimitedKeys held(store, "token_bucket 5/1d", "held");
  held.take("a", store.now());
  LimitedKeys(store, "token_bucket 1/1d", "used_up").take("a", store.now());
  for (std::size_t i = 0; i < 30'000; ++i) {
    LimitedKeys keys(store, numbered("token_bucket 5/1d", i + 1));
    ASSERT_TRUE(keys.take("a", store.now()).allowed);
  }
  EXPECT_GT(store.counters().evicted, 0U);
  EXPECT_EQ(held.peek("a", store.now()).remaining, 4);
  EXPECT_FALSE(LimitedKeys(store, "token_bucket 1/1d", "used_up").take("a", store.now()).allowed);
}

TEST(Limits, StartFreshIfStatesAreReadDifferently) {
  MemoryStore store(small_store());
  {
    LimitedKeys keys(store, "token_bucket 5/1h", "login");
    keys.take("a", kStart, 4);
    keys.block("b", kStart, kHourNs);
  }
  LimitedKeys logs(store, "sliding_log 5/1h", "login");
  EXPECT_EQ(logs.peek("a", kStart).remaining, 5);
  EXPECT_TRUE(logs.take("b", kStart).allowed);
  // The former keys count as fresh: they give way to any other.
  for (std::uint64_t i = 0; i < 30'000; ++i) logs.take(key_name(i), kStart);
  EXPECT_GT(store.counters().evicted, 0U);
  EXPECT_LE(store.used_bytes(), MemoryStore::kLeastBytes);
}

// No request finds the former keys, whatever numbers they had.
TEST(Limits, OfAnotherKindTakeThePlacesOfKeysWithNumbersOfTheirOwn) {
  MemoryStore store(small_store());
  {
    LimitedKeys denying(store, varying("token_bucket 1/1d"));
    for (std::uint64_t i = 0; store.counters().without_room < 5'000; ++i) {
      denying.take(key_name(i), kStart);
    }
  }
  LimitedKeys keys(store, varying("fixed_window 1/1d"));
  for (std::uint64_t i = 0; i < 5'000; ++i) {
    ASSERT_TRUE(keys.take(key_name(i), kStart).allowed) << i;
  }
  EXPECT_EQ(store.counters().evicted, 0U);
}

}  // namespace
}  // namespace sluice::memory
