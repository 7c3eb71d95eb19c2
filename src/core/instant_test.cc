#include "core/instant.h"

#include <gtest/gtest.h>

#include "core/arithmetic.h"

namespace sluice {
namespace {

// The algorithms rely on this: an instant plus the span of a bucket plus the span of a cost, or
// plus two windows, fits 64 bits.
static_assert(kLastEnd <= kMaxInt64 - kMaxDurationNs);
static_assert(static_cast<std::int64_t>(static_cast<double>(kMaxCount)) == kMaxCount);

TEST(ClockTest, NeverRunsBackwards) {
  const Clock clock;
  Instant before = clock.now();
  EXPECT_GT(before, 0);
  for (int i = 0; i < 1'000; ++i) {
    const Instant now = clock.now();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(ClockTest, TheCheapTimeIsAtMostATickEarlier) {
  const auto before = std::chrono::steady_clock::now();
  const auto cheap = steady_now_cheaply();
  EXPECT_LE(cheap, std::chrono::steady_clock::now());
  EXPECT_LT(before - cheap, std::chrono::seconds(1));

  const Clock clock;
  const Instant instant_before = clock.now();
  const Instant cheap_instant = clock.now_cheaply();
  EXPECT_LE(cheap_instant, clock.now());
  EXPECT_LT(instant_before - cheap_instant, kSecondNs);
}

}  // namespace
}  // namespace sluice
