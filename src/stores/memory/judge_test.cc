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

}  // namespace
}  // namespace sluice::memory
