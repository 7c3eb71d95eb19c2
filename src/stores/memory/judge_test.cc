#include "stores/memory/judge.h"

#include <gtest/gtest.h>

#include "testing/memory_keys.h"

namespace sluice::memory {
namespace {

using std::chrono::nanoseconds;

// A block must have ended, and permits must be released.
TEST(Standing, OfBlockedKeysAndPermits) {
  MemoryStore store(small_store());
  LimitedKeys keys(store, "concurrency 1 lease=10s");
  const auto standing_at = [&](Instant now) {
    Standing found;
    place_of(store, keys, "a").shard->visit_all([&](const Slot& slot) {
      found = standing(keys.limit().parts, slot.cell, now);
      EXPECT_EQ(is_fresh(keys.limit().parts, slot.cell, now), found.fresh);
    });
    return found;
  };
  keys.permit(Operation::kTake, "a", kStart, 1);
  EXPECT_FALSE(standing_at(kStart).fresh);
  EXPECT_TRUE(standing_at(kStart).denies);
  EXPECT_EQ(standing_at(kStart).retry_after, nanoseconds(10 * kSecondNs));
  EXPECT_TRUE(standing_at(kStart + 10 * kSecondNs).fresh);
  keys.permit(Operation::kRelease, "a", kStart, 1);
  EXPECT_TRUE(standing_at(kStart).fresh);
  keys.block("a", kStart, kSecondNs);
  EXPECT_FALSE(standing_at(kStart).fresh);
  EXPECT_TRUE(standing_at(kStart).denies);
  EXPECT_EQ(standing_at(kStart).reset_after, nanoseconds(kSecondNs));
  EXPECT_TRUE(standing_at(kStart + kSecondNs).fresh);
}

}  // namespace
}  // namespace sluice::memory
