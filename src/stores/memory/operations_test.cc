// The operations other than takes: charges, take-up-to, blocks, permits.

#include <gtest/gtest.h>

#include <string>

#include "testing/memory_keys.h"

namespace sluice::memory {
namespace {

TEST(Block, IsFreedWithTheKey) {
  MemoryStore store(small_store());
  {
    LimitedKeys keys(store, "sliding_log 5/1s");
    const std::size_t before = store.used_bytes();
    keys.take("a", kStart, 2);
    const std::size_t unblocked = store.used_bytes();
    keys.block("a", kStart, kSecondNs);
    EXPECT_GT(store.used_bytes(), unblocked);
    keys.take("a", kStart + kSecondNs);
    EXPECT_EQ(store.used_bytes(), unblocked);
    keys.block("a", kStart, kHourNs);
    keys.reset("a", kStart);
    EXPECT_EQ(store.used_bytes(), before);
  }
}

// As many permits as possible; releasing them frees their memory.
TEST(Permits, NeedMemoryOnlyWhileTheyAreHeld) {
  MemoryStore store({.max_bytes = std::size_t{1} << 24, .table = {.secret = HashSecret::fixed()}});
  LimitedKeys keys(store, "concurrency 65536");
  keys.permit(Operation::kTake, "a", kStart, 1);
  const std::size_t with_one = store.used_bytes();
  for (PermitId id = 2; id <= 65'536; ++id) {
    ASSERT_TRUE(keys.permit(Operation::kTake, "a", kStart, id).allowed);
  }
  EXPECT_FALSE(keys.permit(Operation::kTake, "a", kStart, 65'537).allowed);
  EXPECT_GE(store.used_bytes(), 65'536 * sizeof(PermitEntry));
  for (PermitId id = 65'536; id > 1; --id) {
    ASSERT_TRUE(keys.permit(Operation::kRelease, "a", kStart, id).allowed);
  }
  EXPECT_LE(store.used_bytes(), with_one + 64 * sizeof(PermitEntry));
  EXPECT_TRUE(keys.permit(Operation::kRelease, "a", kStart, 1).allowed);
  EXPECT_EQ(keys.peek("a", kStart).remaining, 65'536);
}

// Filling the store evicts no key that is blocked, and none whose permits are all held.
TEST(Eviction, SkipsBlockedKeysAndKeysWithoutFreePermits) {
  MemoryStore store(small_store());
  LimitedKeys bucket(store, "token_bucket 2/1h");
  LimitedKeys permits(store, "concurrency 2 lease=1h");
  bucket.block("blocked", kStart, kHourNs);
  for (PermitId id = 1; id <= 2; ++id) permits.permit(Operation::kTake, "all", kStart, id);
  permits.block("none", kStart, kHourNs);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    bucket.take(key_name(i), kStart);
    if (i % 3 == 0) permits.permit(Operation::kTake, key_name(i), kStart, i + 1);
  }
  EXPECT_GT(store.counters().evicted, 0U);
  EXPECT_FALSE(bucket.take("blocked", kStart).allowed);
  EXPECT_FALSE(permits.permit(Operation::kTake, "all", kStart, 3).allowed);
  EXPECT_TRUE(permits.permit(Operation::kRenew, "all", kStart, 2).allowed);
  EXPECT_FALSE(permits.permit(Operation::kTake, "none", kStart, 3).allowed);
}

// A store that is full of keys that deny records nothing for a new key, and says so.
TEST(Full, RecordsNothingOfANewKey) {
  for (const bool allow : {false, true}) {
    SCOPED_TRACE(allow);
    MemoryOptions options = small_store();
    options.table.allow_when_full = allow;
    MemoryStore store(options);
    LimitedKeys keys(store, "token_bucket 1/1h");
    const std::string late = take_until_full(store, keys);
    const auto is_unrecorded = [&](const Decision& decision, bool allowed) {
      EXPECT_EQ(decision.source, Source::kFull);
      EXPECT_EQ(decision.allowed, allowed);
    };
    is_unrecorded(keys.block(late, kStart, kSecondNs), false);
    is_unrecorded(keys.charge(late, kStart, 3), false);
    for (int again = 0; again < 2; ++again) is_unrecorded(keys.take(late, kStart), allow);
    is_unrecorded(keys.take_up_to(late, kStart, 3), allow);
    EXPECT_EQ(keys.take_up_to(late, kStart, 3).taken, allow ? 1 : 0);
    const std::uint64_t refused = store.counters().without_room;
    EXPECT_EQ(keys.peek(late, kStart).source, Source::kStore);
    EXPECT_EQ(keys.peek(late, kStart).remaining, 1);
    EXPECT_EQ(store.counters().without_room, refused) << "a peek needs no room";
    EXPECT_LE(store.used_bytes(), MemoryStore::kLeastBytes);
  }
}

}  // namespace
}  // namespace sluice::memory
