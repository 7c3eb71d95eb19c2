#include "net/backoff.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using namespace std::chrono_literals;

TEST(BackoffTest, DoublesUpToTheMostLessAHalfAtMost) {
  Backoff backoff(10ms, 250ms);
  for (int round = 0; round < 2; ++round) {
    for (const std::chrono::nanoseconds whole : {10ms, 20ms, 40ms, 80ms, 160ms, 250ms, 250ms}) {
      const std::chrono::nanoseconds pause = backoff.next();
      EXPECT_GE(pause, whole / 2);
      EXPECT_LE(pause, whole);
    }
    backoff.reset();
  }
}

TEST(BackoffTest, TwoProcessesDoNotTryInStep) {
  Backoff one(1h, 1h);
  Backoff two(1h, 1h);
  EXPECT_NE(one.next(), two.next());
}

}  // namespace
}  // namespace sluice
