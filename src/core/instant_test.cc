#include "core/instant.h"

#include <gtest/gtest.h>

#include "core/arithmetic.h"

namespace sluice {
namespace {

// What the algorithms rely on: an instant, a bucket's worth ahead of it and one more of cost, or a
// window and the next, still fit 64 bits.
static_assert(kEndOfTime - 1 + kMaxDurationNs <= kMaxInt64 - kMaxDurationNs);
static_assert(static_cast<std::int64_t>(static_cast<double>(kMaxCount)) == kMaxCount);

TEST(ClockTest, NeverRunsBackwardsAndStaysWithinTime) {
  const Clock clock;
  Instant before = clock.now();
  EXPECT_GT(before, 0);
  for (int i = 0; i < 1'000; ++i) {
    const Instant now = clock.now();
    ASSERT_GE(now, before);
    before = now;
  }
  EXPECT_LT(before, kEndOfTime);
}

}  // namespace
}  // namespace sluice
