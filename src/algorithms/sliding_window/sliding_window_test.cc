#include "algorithms/sliding_window/sliding_window.h"

#include <gtest/gtest.h>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<SlidingWindow>;

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

}  // namespace
}  // namespace sluice
