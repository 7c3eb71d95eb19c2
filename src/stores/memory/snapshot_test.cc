#include "stores/memory/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "algorithms/bucket.h"
#include "testing/error_of.h"
#include "testing/memory_keys.h"
#include "testing/snapshots.h"

namespace sluice::memory {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
// A sliding_log with 65,536 entries, and little more.
constexpr std::size_t kLargestStep = 1'050'000;

// The sentence with which it is refused; empty if it is loaded.
std::string refusal(std::string_view bytes, Instant now = kStart) {
  MemoryStore store({.max_bytes = kMebibyte, .table = {}});
  return error_of<SnapshotError>([&] { load(store, now, bytes); });
}

std::unique_ptr<MemoryStore> restarted(MemoryStore& store, Instant now) {
  auto again = std::make_unique<MemoryStore>();
  load(*again, now, written(store, now));
  return again;
}

TEST(Snapshot, LeavesOutWhatIsFreshWhenItIsLoaded) {
  MemoryStore store;
  LimitedKeys keys(store, "token_bucket 1/1s");
  LimitedKeys slow(store, "token_bucket 1/1h");
  keys.take("a", kStart);
  slow.take("a", kStart);
  MemoryStore again;
  const auto summary = load(again, kStart + 2 * kSecondNs, written(store, kStart));
  EXPECT_EQ(summary.written_at, kStart);
  EXPECT_EQ(summary.keys, 1);
  EXPECT_EQ(summary.fresh, 1);
  EXPECT_EQ(again.count_keys(), 1);
}

// The wall clock was an hour behind when the store was opened, and has been put right since.
TEST(Snapshot, TheClockGoesOnWhereTheStoreWas) {
  constexpr Instant kRight = kStart + kHourNs;
  MemoryStore store;
  LimitedKeys(store, "sliding_log 2/30m", "login").take("a", kStart, 2);
  const std::string bytes = written(store, kStart, kRight);
  MemoryStore again;
  const auto summary = load(again, kRight + kMinuteNs, bytes);
  EXPECT_EQ(summary.written_at, kRight);
  EXPECT_EQ(summary.clock_ahead_ns, -kHourNs);
  const Instant now = again.now();
  EXPECT_GE(now, kStart + kMinuteNs);
  EXPECT_LT(now, kStart + 29 * kMinuteNs);
  EXPECT_FALSE(LimitedKeys(again, "sliding_log 2/30m", "login").take("a", now).allowed);
  MemoryStore later;
  EXPECT_EQ(load(later, kRight + kHourNs, bytes).fresh, 1);
  // The wall clock was set back between: no time has passed.
  for (const Instant wall : {kStart - kHourNs / 2, Instant{0}}) {
    MemoryStore back;
    const auto found = load(back, wall, bytes);
    EXPECT_EQ(found.keys, 1);
    EXPECT_EQ(found.clock_ahead_ns, kStart - wall);
    EXPECT_GE(back.now(), kStart);
    EXPECT_LT(back.now(), kStart + kMinuteNs);
  }
}

// The machine begins with a clock that is wrong by as much each time, and puts it right later.
TEST(Snapshot, AClockThatIsWrongAtEachStartDoesNotAddUp) {
  for (const std::int64_t wrong : {2 * kHourNs, -2 * kHourNs}) {
    Instant right = kStart;
    auto store = std::make_unique<MemoryStore>();
    store->set_clock(right);
    for (int boot = 0; boot < 4; ++boot) {
      const Instant began = store->now();
      const std::string bytes = written(*store, began, right);
      right += kMinuteNs;
      store = std::make_unique<MemoryStore>();
      load(*store, right + wrong, bytes);
      const Instant passed = store->now() - began;
      const bool first = boot == 0;  // How wrong the clock is is not known yet.
      EXPECT_LT(passed, (first ? 3 * kHourNs : 2 * kMinuteNs)) << boot;
      EXPECT_GE(passed, 0) << boot;
    }
  }
}

// As if the limits had changed without a restart.
TEST(Snapshot, ALimitFindsItsStatesByItsName) {
  MemoryStore store;
  LimitedKeys(store, "token_bucket 5/1h", "api").take("a", kStart, 3);
  LimitedKeys(store, "sliding_log 5/1h", "login").take("a", kStart, 5);
  LimitedKeys(store, "fixed_window 5/1h", "gone").take("a", kStart, 5);
  const auto again = restarted(store, kStart);
  EXPECT_EQ(LimitedKeys(*again, "token_bucket 10/1h", "api").peek("a", kStart).remaining, 4);
  EXPECT_EQ(LimitedKeys(*again, "sliding_log 7/1h", "login").peek("a", kStart).remaining, 2);
  // Another algorithm cannot go on from its states.
  EXPECT_EQ(LimitedKeys(*again, "token_bucket 7/1h", "gone").peek("a", kStart).remaining, 7);
  EXPECT_EQ(LimitedKeys(*again, "fixed_window 5/1h").peek("a", kStart).remaining, 5);
}

TEST(Snapshot, LeavesOutTheKeysOfALimitThatAnotherKindReplaced) {
  MemoryStore store;
  LimitedKeys(store, varying("token_bucket 2/1h")).take("former", kStart, 2);
  LimitedKeys keys(store, varying("sliding_log 5/1h"));
  keys.take("a", kStart, 5);
  const auto again = restarted(store, kStart);
  EXPECT_EQ(again->count_keys(), 1);
  EXPECT_FALSE(LimitedKeys(*again, varying("sliding_log 5/1h")).take("a", kStart).allowed);
}

TEST(Snapshot, KeysOfALimitThatVariesAreJudgedByTheirNumbers) {
  MemoryStore store;
  LimitedKeys few(store, varying("token_bucket 2/1h"));
  LimitedKeys many(store, varying("token_bucket 9/1h"));
  few.take("few", kStart, 2);
  many.take("many", kStart, 2);
  const auto again = restarted(store, kStart);
  EXPECT_EQ(again->count_keys(), 2);
  LimitedKeys same(*again, varying("token_bucket 9/1h"));
  EXPECT_EQ(same.peek("many", kStart).remaining, 7);
  LimitedKeys other(*again, varying("token_bucket 2/1h"));
  EXPECT_FALSE(other.take("few", kStart).allowed);
  const auto third = restarted(*again, kStart);
  EXPECT_EQ(third->count_keys(), 2);
}

// The keys that are not asked again are those of the limit as it is now.
TEST(Snapshot, KeysOfALimitThatChangedMeanwhileAreJudgedByItsNewNumbers) {
  MemoryStore store(small_store());
  LimitedKeys many(store, kMany, "api");
  take_from_each(many, "own", 1'000);
  MemoryStore again(small_store());
  load(again, kStart, written(store, kStart));
  LimitedKeys one(again, kOne, "api");
  LimitedKeys others(again, "token_bucket 2/1d", "others");
  crowd_out(again, others);
  EXPECT_EQ(take_from_each(one, "own"), 0);
  EXPECT_EQ(again.counters().without_room, 0U) << "keys were denied for lack of room";
}

// As if the store had never been away, which knows that the numbers vary.
TEST(Snapshot, KeysOfOnePlanAreNotJudgedByTheNumbersOfAnother) {
  MemoryStore store(small_store());
  LimitedKeys one(store, kOne, "api");
  take_from_each(one, "own");
  const LimitedKeys many(store, kMany, "api");
  MemoryStore again(small_store());
  load(again, kStart, written(store, kStart));
  LimitedKeys many_again(again, kMany, "api");
  crowd_out(again, many_again, 2'000);
  LimitedKeys one_again(again, kOne, "api");
  EXPECT_EQ(take_from_each(one_again, "own"), 0);
}

// Also those of which no other key has the numbers: none of them denies, so that all give way.
TEST(Snapshot, KeysWithNumbersOfTheirOwnThatDoNotDenyGiveWay) {
  MemoryStore store(small_store());
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::string count = std::to_string(2 + i);
    LimitedKeys keys(store, varying("token_bucket " + count + "/1d"));
    ASSERT_TRUE(keys.take(key_name(i), kStart, static_cast<std::int64_t>(1 + i)).allowed);
  }
  MemoryStore again(small_store());
  load(again, kStart, written(store, kStart));
  EXPECT_EQ(again.count_keys(), 20'000);
  LimitedKeys others(again, "token_bucket 1/1d", "others");
  for (std::uint64_t i = 0; i < 2'000; ++i) ASSERT_TRUE(others.take(key_name(i), kStart).allowed);
}

// CL.THROTTLE takes bursts that are larger than those of expressions.
TEST(Snapshot, NumbersThatNoExpressionHasArePossible) {
  constexpr std::int64_t kBurst = kMaxCount + 10;
  const LimitDefinition first = varying("token_bucket 1/1s");
  LimitDefinition large = first;
  large.parts = {Part<TokenBucket>{{*bucket_params(1, 1, kBurst)}}};
  MemoryStore store;
  const LimitedKeys held(store, first);
  LimitedKeys(store, large).take("a", kStart, kBurst - 3);
  LimitedKeys(store, large).take("b", kStart, kBurst - 4);
  const auto again = restarted(store, kStart);
  const LimitedKeys held_again(*again, first);
  EXPECT_EQ(LimitedKeys(*again, large).take("a", kStart).remaining, 2);
  const auto third = restarted(*again, kStart);
  const LimitedKeys held_by_third(*third, first);
  EXPECT_EQ(LimitedKeys(*third, large).peek("a", kStart).remaining, 2);
  EXPECT_EQ(LimitedKeys(*third, large).peek("b", kStart).remaining, 4);
}

// Loads a snapshot of 4,000 keys of a limit "a" into `again`. While it is written, the limit gives
// way to a token_bucket of that name, all of whose keys are used; if told so, its keys are reset.
void load_what_changed_meanwhile(MemoryStore& again, const char* name, bool with_reset) {
  MemoryStore store;
  auto first = std::make_unique<LimitedKeys>(store, "sliding_log 3/1h", "a");
  for (std::uint64_t i = 0; i < 4'000; ++i) first->take(key_name(i), kStart, 3);
  std::string bytes;
  std::size_t pieces = 0;
  std::unique_ptr<LimitedKeys> second;
  write_snapshot(store, kStart, kStart, [&](std::string_view piece) {
    bytes += piece;
    if (++pieces != 1'000) return;
    for (std::uint64_t i = 0; with_reset && i < 4'000; ++i) first->reset(key_name(i), kStart);
    first.reset();
    second = std::make_unique<LimitedKeys>(store, "token_bucket 3/1h", name);
    for (std::uint64_t i = 0; i < 4'000; ++i) second->take(key_name(i), kStart);
  });
  load(again, kStart, bytes);
}

// The number of a limit that is forgotten meanwhile is not given to another one.
TEST(Snapshot, LimitsKeepTheirNumbersUntilItIsWritten) {
  MemoryStore again;
  load_what_changed_meanwhile(again, "b", true);
  std::uint64_t found_logs = 0;
  std::uint64_t found_buckets = 0;
  LimitedKeys logs(again, "sliding_log 3/1h", "a");
  LimitedKeys buckets(again, "token_bucket 3/1h", "b");
  for (std::uint64_t i = 0; i < 4'000; ++i) {
    const auto logged = logs.peek(key_name(i), kStart).remaining;
    const auto left = buckets.peek(key_name(i), kStart).remaining;
    ASSERT_TRUE(logged == 0 || logged == 3);
    ASSERT_TRUE(left == 2 || left == 3);
    found_logs += logged == 0 ? 1 : 0;
    found_buckets += left == 2 ? 1 : 0;
  }
  EXPECT_GT(found_logs, 500);
  EXPECT_GT(found_buckets, 500);
}

TEST(Snapshot, LimitsMayComeAndGoWhileItIsWritten) {
  MemoryStore again;
  load_what_changed_meanwhile(again, "a", false);
  LimitedKeys same(again, "token_bucket 3/1h", "a");
  // Its keys are those that it had when their shards were written.
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < 4'000; ++i) {
    const auto remaining = same.peek(key_name(i), kStart).remaining;
    ASSERT_TRUE(remaining == 2 || remaining == 3);
    found += remaining == 2 ? 1 : 0;
  }
  EXPECT_GT(found, 1'000);
  EXPECT_LT(found, 3'999);
}

// Shards grow and keys move between two steps.
TEST(Snapshot, HasEveryKeyOnceThatIsThereAllTheTime) {
  constexpr std::uint64_t kKeys = 100'000;
  MemoryStore store;
  LimitedKeys lasting(store, "token_bucket 10/1d", "lasting");
  LimitedKeys passing(store, "token_bucket 10/1d", "passing");
  for (std::uint64_t i = 0; i < kKeys; ++i) lasting.take(key_name(i), kStart);
  for (std::uint64_t i = 0; i < kKeys; ++i) passing.take(key_name(i), kStart);
  std::string bytes;
  std::mt19937 random(1);
  write_snapshot(store, kStart, kStart, [&](std::string_view piece) {
    bytes += piece;
    for (int i = 0; i < 40; ++i) {
      passing.reset(key_name(random() % kKeys), kStart);
      passing.take(key_name(kKeys + random() % (4 * kKeys)), kStart);
    }
  });
  MemoryStore again;
  const auto summary = load(again, kStart, bytes);
  EXPECT_EQ(summary.without_room, 0);
  LimitedKeys same(again, "token_bucket 10/1d", "lasting");
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(same.peek(key_name(i), kStart).remaining, 9) << i;
  }
}

TEST(Snapshot, IsCopiedInSmallSteps) {
  MemoryStore store;
  LimitedKeys logs(store, "sliding_log 65536/1d");
  LimitedKeys buckets(store, "token_bucket 10/1d");
  // So that they share a shard: logs of 1 MiB, and many other keys.
  std::vector<std::string> here;
  for (std::uint64_t i = 0; here.size() < 5'000; ++i) {
    if (place_of(store, buckets, key_name(i)).shard == &store.table().shard(7))
      here.push_back(key_name(i));
  }
  for (const auto& key : here) buckets.take(key, kStart);
  std::size_t full = 0;
  for (std::uint64_t i = 0; full < 3; ++i) {
    if (place_of(store, logs, key_name(i)).shard != &store.table().shard(7)) continue;
    for (Instant at = 0; at < 65'536; ++at) logs.take(key_name(i), kStart + at);
    ++full;
  }
  std::size_t largest = 0;
  std::size_t medium = 0;
  std::string bytes;
  write_snapshot(store, kStart, kStart, [&](std::string_view piece) {
    bytes += piece;
    largest = std::max(largest, piece.size());
    medium += piece.size() > 40'000 ? 1 : 0;
  });
  EXPECT_LT(largest, kLargestStep);
  EXPECT_GT(largest, std::size_t{1} << 20);
  EXPECT_EQ(medium, full);  // Each of the logs is a step of its own.
  MemoryStore again;
  EXPECT_EQ(load(again, kStart + 65'536, bytes).keys, here.size() + full);
}

// The largest key that there can be.
TEST(Snapshot, HasALargeKeyWhole) {
  MemoryStore store;
  std::string expression = "sliding_log 65536/1d";
  for (std::size_t days = 2; days <= kMaxParts; ++days) {
    expression += " & sliding_log 65536/" + std::to_string(days) + "d";
  }
  LimitedKeys logs(store, expression);
  for (Instant at = 0; at < 60'000; ++at) logs.take("large", kStart + at);
  logs.take("small", kStart);
  const Instant now = kStart + kSecondNs;
  logs.block("large", now, kSecondNs);
  const std::string bytes = written(store, now);
  EXPECT_GT(bytes.size(), kMaxParts * 60'000 * sizeof(RingEntry));
  MemoryStore again;
  EXPECT_EQ(load(again, now, bytes).keys, 2);
  LimitedKeys same(again, expression);
  for (const Instant then : {now, now + 2 * kSecondNs, now + kDayNs, now + 7 * kDayNs}) {
    for (const char* key : {"large", "small"}) {
      EXPECT_EQ(same.peek(key, then), logs.peek(key, then)) << key << ", " << then - now;
    }
  }
}

// Of which each record finds place in a store that has none for it yet.
TEST(Snapshot, HasKeysOfSeveralMediumRecordsWhole) {
  MemoryStore store;
  constexpr auto kLogs = "sliding_log 1000/1d & sliding_log 1000/2d & sliding_log 1000/3d";
  LimitedKeys logs(store, kLogs);
  LimitedKeys permits(store, "concurrency 1000");
  for (Instant at = 0; at < 500; ++at) {
    logs.take("a", kStart + at);
    permits.permit(Operation::kTake, "b", kStart, static_cast<PermitId>(at) + 1);
  }
  MemoryStore again;
  EXPECT_EQ(load(again, kStart + 500, written(store, kStart + 500)).keys, 2);
  LimitedKeys same_logs(again, kLogs);
  LimitedKeys same_permits(again, "concurrency 1000");
  EXPECT_EQ(same_logs.peek("a", kStart + 500), logs.peek("a", kStart + 500));
  EXPECT_EQ(same_permits.peek("b", kStart + 500), permits.peek("b", kStart + 500));
}

// Of some of these sizes, the one is nearly a record with pages of its own.
TEST(Snapshot, HasTwoRingsOfAnySize) {
  constexpr auto kLogs = "sliding_log 2000/1h & sliding_log 5000/1d";
  const MemoryOptions options{.max_bytes = std::size_t{64} << 20, .table = {}};
  MemoryStore store(options);
  LimitedKeys logs(store, kLogs);
  for (Instant at = 0; at < 1'024; ++at) {
    logs.take("a", kStart + at);
    if (at < 1'012) continue;
    MemoryStore again(options);
    ASSERT_EQ(load(again, kStart + at, written(store, kStart + at)).keys, 1) << at;
    EXPECT_EQ(LimitedKeys(again, kLogs).peek("a", kStart + at), logs.peek("a", kStart + at));
  }
}

// Fills a store until it has refused or forgotten many keys: every tenth denies, some are logs.
void fill(MemoryStore& store) {
  LimitedKeys buckets(store, "token_bucket 10/1d");
  LimitedKeys logs(store, "sliding_log 40/1d");
  for (std::uint64_t i = 0; i < 60'000; ++i) {
    if (i % 7 == 0) {
      for (Instant at = 0; at < 20; ++at) logs.take(key_name(i % 1'000), kStart + at);
    }
    buckets.take(key_name(i), kStart, i % 10 == 0 ? 10 : 1);
  }
}

// The keys of fill() that deny.
std::size_t count_denying(MemoryStore& store) {
  LimitedKeys buckets(store, "token_bucket 10/1d");
  std::size_t denying = 0;
  for (std::uint64_t i = 0; i < 60'000; i += 10) {
    denying += buckets.peek(key_name(i), kStart).remaining == 0 ? 1 : 0;
  }
  return denying;
}

TEST(Snapshot, AFullStoreFitsIntoOneOfItsSize) {
  MemoryStore store({.max_bytes = kMebibyte, .table = {}});
  fill(store);
  ASSERT_GT(store.counters().evicted.load(), 1'000);
  MemoryStore again({.max_bytes = kMebibyte, .table = {}});
  const auto summary = load(again, kStart + 20, written(store, kStart + 20));
  EXPECT_EQ(summary.without_room, 0);
  EXPECT_EQ(again.counters().evicted.load(), 0);
  EXPECT_EQ(again.count_keys(), store.count_keys());
  EXPECT_EQ(count_denying(again), count_denying(store));
}

// Shards grow in steps, so those that are loaded first may have more keys than the average.
TEST(Snapshot, AFullStoreOfKeysThatDenyFitsIntoOneOfItsSize) {
  constexpr std::size_t kBytes = 4 * kMebibyte;
  for (std::uint8_t secret = 1; secret <= 4; ++secret) {
    HashSecret other = HashSecret::fixed();
    other.bytes[0] = secret;
    MemoryStore store({.max_bytes = kBytes, .table = {.secret = other}});
    LimitedKeys keys(store, "token_bucket 1/1d", "login");
    for (std::uint64_t i = 0; i < kBytes / 25; ++i) keys.take(key_name(i), kStart, 1);
    ASSERT_LT(store.count_keys(), kBytes / 25);  // It was full.
    MemoryStore again({.max_bytes = kBytes, .table = {}});
    const auto summary = load(again, kStart, written(store, kStart));
    EXPECT_EQ(summary.without_room, 0) << "secret " << int{secret};
    EXPECT_EQ(again.count_keys(), store.count_keys()) << "secret " << int{secret};
  }
}

// Those that are loaded first take no more room than those that are loaded last.
TEST(Snapshot, IntoLessRoomTheKeysThatDenyAreTaken) {
  constexpr std::uint64_t kKeys = 100'000;
  MemoryStore large({.max_bytes = std::size_t{4} << 20, .table = {.secret = HashSecret::fixed()}});
  LimitedKeys keys(large, "token_bucket 2/2d", "login");
  for (std::uint64_t i = 0; i < kKeys; ++i) keys.take(key_name(i), kStart, i % 5 == 0 ? 2 : 1);
  MemoryStore small(small_store());
  load(small, kStart, written(large, kStart));
  LimitedKeys loaded(small, "token_bucket 2/2d", "login");
  int denied = 0;
  for (std::uint64_t i = 0; i < kKeys; i += 5) {
    denied += loaded.peek(key_name(i), kStart).remaining == 0 ? 1 : 0;
  }
  EXPECT_GT(denied, 19'500);
}

TEST(Snapshot, IntoLessRoomTheStoreTakesWhatItCan) {
  MemoryStore store({.max_bytes = 8 * kMebibyte, .table = {}});
  fill(store);
  MemoryStore small({.max_bytes = kMebibyte, .table = {}});
  const auto summary = load(small, kStart, written(store, kStart));
  EXPECT_EQ(summary.keys + summary.without_room, store.count_keys());
  EXPECT_EQ(small.count_keys(), summary.keys);
  EXPECT_GT(small.counters().evicted.load(), 0);
  EXPECT_LE(small.used_bytes(), kMebibyte);
  EXPECT_GT(count_denying(small), count_denying(store) / 2);
}

// With a sanitizer, opening a store for each byte takes long: every seventh is tried, and all of
// them with SLUICE_TEST_SCALE.
const std::size_t kStep = std::getenv("SLUICE_TEST_SCALE") != nullptr ? 1 : 7;

const std::vector<std::string> kExpressions{
    "token_bucket 5/10s burst=9",
    "token_bucket 5/10s borrow=yes",
    "leaky_bucket 5/10s queue=7",
    "fixed_window 9/10s",
    "fixed_window 9/10s anchor=first",
    "sliding_log 9/10s",
    "sliding_window 9/10s",
    "sliding_window 9/10s precision=3s strict=no",
    "sliding_counter 9/10s",
    "sliding_counter 9/10s & token_bucket 6/3s & fixed_window 7/1s",
    "sliding_log 9/10s & fixed_window 8/9s anchor=first & sliding_window 7/8s",
    "concurrency 3 lease=5s"};

// One of everything, in few bytes.
std::string small_snapshot() {
  MemoryStore store;
  for (std::size_t i = 0; i < kExpressions.size(); ++i) {
    LimitedKeys keys(store, kExpressions[i], "limit" + std::to_string(i));
    keys.permit(Operation::kTake, "a", kStart, 7);
    if (i % 3 == 0) keys.block("a", kStart, kSecondNs);
  }
  return written(store, kStart);
}

TEST(Snapshot, EveryByteThatIsChangedIsFound) {
  const std::string bytes = small_snapshot();
  ASSERT_EQ(refusal(bytes), "");
  for (std::size_t i = 0; i < bytes.size(); i += kStep) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
    ASSERT_THAT(refusal(changed), StartsWith("it is ")) << "byte " << i;
  }
}

TEST(Snapshot, EveryByteThatIsMissingIsFound) {
  const std::string bytes = small_snapshot();
  for (std::size_t size = 0; size < bytes.size(); size += kStep) {
    ASSERT_THAT(refusal(bytes.substr(0, size)), HasSubstr("it ends after " + std::to_string(size)))
        << size;
  }
  for (std::size_t i = 0; i < bytes.size(); i += kStep) {
    std::string shorter = bytes;
    ASSERT_NE(refusal(shorter.erase(i, 1)), "") << "byte " << i;
  }
  EXPECT_THAT(refusal(bytes + "x"), HasSubstr("bytes follow its end"));
}

// Each block starts with its kind and size, and ends with a checksum.
TEST(Snapshot, BlocksThatAreMissingOrOutOfPlaceAreFound) {
  const std::string bytes = small_snapshot();
  const std::size_t begin = bytes.find('\n') + 1;
  std::vector<std::string> blocks;
  for (std::size_t at = begin; at < bytes.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, bytes.data() + at + 4, sizeof size);
    blocks.push_back(bytes.substr(at, size + 16));
    at += size + 16;
  }
  ASSERT_GT(blocks.size(), 10);
  const auto joined = [&](const std::vector<std::string>& all) {
    std::string result = bytes.substr(0, begin);
    for (const auto& block : all) result += block;
    return result;
  };
  ASSERT_EQ(joined(blocks), bytes);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto without = blocks;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THAT(refusal(joined(without)), StartsWith("it is damaged: ")) << i;
    auto twice = blocks;
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(i), blocks[i]);
    EXPECT_THAT(refusal(joined(twice)), StartsWith("it is damaged: ")) << i;
    auto swapped = blocks;
    std::swap(swapped[i], swapped[(i + 1) % blocks.size()]);
    EXPECT_THAT(refusal(joined(swapped)), StartsWith("it is damaged: ")) << i;
  }
}

TEST(Snapshot, SaysWhyItIsRefused) {
  EXPECT_EQ(refusal("limits:\n  api: 5/1s\n"), "it is not a snapshot");
  EXPECT_EQ(refusal(""), "it is damaged: it ends after 0 bytes, too early");
  std::string bytes = small_snapshot();
  bytes[bytes.find('\n') - 1] = '9';
  EXPECT_EQ(refusal(bytes), "it is a snapshot of another version of sluice");
}

}  // namespace
}  // namespace sluice::memory
