#include "algorithms/sliding_window/sliding_window.h"

#include <gtest/gtest.h>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<SlidingWindow>;
using std::chrono::nanoseconds;

TEST(SlidingWindowTest, KeepsOneEntryForEachSubWindow) {
  Key key("sliding_window 1000000/1h");
  for (Instant now = 0; now < 3 * kHourNs; now += 10 * kSecondNs) {
    ASSERT_TRUE(key.take({.now = now}).allowed);
    ASSERT_LE(key.state().size, 11U);
  }
  EXPECT_EQ(key.state().size, 11U);
  static_assert(11 * sizeof(RingEntry) == 176);
  static_assert((SlidingWindow::kMaxSubWindows + 1) * sizeof(RingEntry) == 16'016);
}

TEST(SlidingWindowTest, TheExtremesOfADefinitionDoNotOverflow) {
  const char* const widest =
      "sliding_window 9007199254740991/2305843009213693952ns precision=2305843009213693952ns";
  Key key(widest);
  EXPECT_EQ(key.params().lifetime_ns, kEndOfTime);
  const Instant late = kEndOfTime - 1;
  EXPECT_TRUE(key.take({.now = late, .cost = kMaxCount}).allowed);
  // Recorded at the start of the last sub-window.
  EXPECT_EQ(key.take({.now = late}).retry_after, nanoseconds(kMaxDurationNs + 1));
  EXPECT_THROW(Key("sliding_window 1/2305843009213693952ns precision=2305843009213693951ns"),
               InvalidLimit);
}

}  // namespace
}  // namespace sluice
