#include "stores/memory/judge.h"

#include <gtest/gtest.h>

#include "testing/memory_keys.h"

namespace sluice::memory {
namespace {

using std::chrono::nanoseconds;

// A store with one limit, of which one key is used.
struct StoredKey {
  explicit StoredKey(std::string_view limit) : keys(store, limit) {}

  // How the key stands once it has been used.
  Standing standing_at(Instant now) {
    Standing found;
    place_of(store, keys, "a").shard->visit_all([&](const Slot& slot) {
      found = standing(keys.limit().parts, slot.cell, now);
      EXPECT_EQ(is_fresh(keys.limit().parts, slot.cell, now), found.fresh);
    });
    return found;
  }

  MemoryStore store{small_store()};
  LimitedKeys keys;
};

// Keys are swept once they are fresh.
TEST(Standing, OfAUsedKeyIsFreshAfterItsResetAfter) {
  for (const auto* limit : {"token_bucket 1/1s", "leaky_bucket 1/1s queue=0", "fixed_window 1/1s",
                            "sliding_log 1/1s", "sliding_window 1/1s", "sliding_counter 1/1s"}) {
    SCOPED_TRACE(limit);
    StoredKey key(limit);
    const Standing unused = standing(key.keys.limit().parts, 0, kStart);
    EXPECT_TRUE(unused.fresh);
    EXPECT_FALSE(unused.denies);
    ASSERT_TRUE(key.keys.take("a", kStart).allowed);
    const Standing used = key.standing_at(kStart);
    EXPECT_FALSE(used.fresh);
    EXPECT_TRUE(used.denies);
    EXPECT_GT(used.retry_after.count(), 0);
    const Instant later = kStart + used.reset_after.count();
    EXPECT_TRUE(key.standing_at(later).fresh);
    EXPECT_FALSE(key.standing_at(later - 1).fresh);
  }
}

TEST(Standing, OfSeveralPartsHasTheLongestWaits) {
  StoredKey key("token_bucket 5/1s & fixed_window 1/1d anchor=first");
  ASSERT_TRUE(key.keys.take("a", kStart).allowed);
  const Standing used = key.standing_at(kStart);
  EXPECT_TRUE(used.denies);
  EXPECT_EQ(used.retry_after, std::chrono::hours(24));
  EXPECT_EQ(used.reset_after, std::chrono::hours(24));
}

// A block must have ended, and permits must be released.
TEST(Standing, OfBlockedKeysAndPermits) {
  StoredKey key("concurrency 1 lease=10s");
  key.keys.permit(Operation::kTake, "a", kStart, 1);
  EXPECT_FALSE(key.standing_at(kStart).fresh);
  EXPECT_TRUE(key.standing_at(kStart).denies);
  EXPECT_EQ(key.standing_at(kStart).retry_after, nanoseconds(10 * kSecondNs));
  EXPECT_TRUE(key.standing_at(kStart + 10 * kSecondNs).fresh);
  key.keys.permit(Operation::kRelease, "a", kStart, 1);
  EXPECT_TRUE(key.standing_at(kStart).fresh);
  key.keys.block("a", kStart, kSecondNs);
  EXPECT_FALSE(key.standing_at(kStart).fresh);
  EXPECT_TRUE(key.standing_at(kStart).denies);
  EXPECT_EQ(key.standing_at(kStart).reset_after, nanoseconds(kSecondNs));
  EXPECT_TRUE(key.standing_at(kStart + kSecondNs).fresh);
}

TEST(Standing, OfAnyKeyOfALimitWithoutPartsIsFresh) {
  EXPECT_TRUE(standing({}, 7, kStart).fresh);
  EXPECT_FALSE(standing({}, 7, kStart).denies);
  EXPECT_TRUE(is_fresh({}, 7, kStart));
}

}  // namespace
}  // namespace sluice::memory
