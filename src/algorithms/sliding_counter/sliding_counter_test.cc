#include "algorithms/sliding_counter/sliding_counter.h"

#include <gtest/gtest.h>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<SlidingCounter>;

static_assert(sizeof(SlidingCounter::State) == 24);

TEST(SlidingCounterTest, RetryAfterIsExactForLargeDoubles) {
  // With sums near 2^53 the estimate stays constant for long and then steps, because of rounding,
  // far from where integers would.
  for (const char* expression : {"sliding_counter 9007199254740991/9007199254740992ns",
                                 "sliding_counter 9007199254740991/1000003ns"}) {
    for (std::int64_t i = 1; i <= 300; ++i) {
      Key key(expression);
      const std::int64_t window_ns = key.params().window_ns();
      const std::int64_t before = 1 + i * i * i;
      ASSERT_TRUE(key.take({.now = 0, .cost = before}).allowed);
      const Instant now = window_ns + window_ns / 1000 * i;
      const std::int64_t room = key.take({.now = now, .cost = 0}).remaining;
      ASSERT_TRUE(key.take({.now = now, .cost = room - before / 7}).allowed);
      const std::int64_t cost = 1 + before / 6;
      const std::int64_t wait_ns = key.take({.now = now, .cost = cost}).retry_after.count();
      ASSERT_GT(wait_ns, 0);
      EXPECT_FALSE(key.take({.now = now + wait_ns - 1, .cost = cost}).allowed) << i;
      EXPECT_TRUE(key.take({.now = now + wait_ns, .cost = cost}).allowed) << i;
    }
  }
}

// The same sum in integers has room a nanosecond earlier.
TEST(SlidingCounterTest, RetryAfterIsThatOfTheRoundedSum) {
  constexpr Instant kWindow = 7'078'587'992'639'095;
  const Key key("sliding_counter 5559582709338531/7078587992639095ns");
  const SlidingCounter::State state{
      .start_ns = kWindow, .current = 370'708'682'354'456, .previous = 5'315'799'271'062'693};
  const auto ask = [&](Instant now) {
    const Call call{.now = kWindow + now, .cost = 1'290'871'199'339'993};
    return SlidingCounter::take(key.params(), state, call).decision;
  };
  const Instant wait_ns = ask(0).retry_after.count();
  EXPECT_EQ(wait_ns, 1'887'956'329'544'227);
  EXPECT_FALSE(ask(wait_ns - 1).allowed);
  EXPECT_TRUE(ask(wait_ns).allowed);
}

// Of 3 units 1.5 count in the middle of the next window. The sum with the difference to the limit,
// which is odd, is rounded up to more than the limit.
TEST(SlidingCounterTest, RemainingIsExactForLargeDoubles) {
  Key key("sliding_counter 9007199254740991/2ns");
  ASSERT_TRUE(key.take({.now = 0, .cost = 3}).allowed);
  const std::int64_t remaining = key.take({.now = 3, .cost = 0}).remaining;
  EXPECT_EQ(remaining, kMaxCount - 2);
  EXPECT_FALSE(key.take({.now = 3, .cost = remaining + 1}).allowed);
  EXPECT_TRUE(key.take({.now = 3, .cost = remaining}).allowed);
}

}  // namespace
}  // namespace sluice
