#include "net/backoff.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr Backoff::Bounds kBounds{.least = milliseconds(10), .most = milliseconds(250)};
constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();

TEST(BackoffTest, DoublesUpToTheMost) {
  Backoff backoff(kBounds);
  for (const int pause_ms : {10, 20, 40, 80, 160, 250, 250}) {
    EXPECT_EQ(backoff.after_failure(0), milliseconds(pause_ms));
  }
}

TEST(BackoffTest, TakesAwayUpToHalfAtRandom) {
  Backoff backoff(kBounds);
  EXPECT_EQ(backoff.after_failure(kMost), milliseconds(5));
  const nanoseconds pause = backoff.after_failure(kMost / 2);
  EXPECT_GT(pause, milliseconds(14));
  EXPECT_LT(pause, milliseconds(16));
  EXPECT_EQ(backoff.after_failure(0), milliseconds(40));
}

TEST(BackoffTest, ALossIsTriedAgainAtOnceAndThenLikeAFailure) {
  Backoff backoff(kBounds);
  EXPECT_EQ(backoff.after_loss(0), nanoseconds(0));
  EXPECT_EQ(backoff.after_loss(0), milliseconds(10));
  EXPECT_EQ(backoff.after_failure(0), milliseconds(20));
}

TEST(BackoffTest, AConnectionThatLastsForgetsEarlierTrouble) {
  Backoff backoff(kBounds);
  for (int i = 0; i < 9; ++i) backoff.after_failure(0);
  backoff.forget_if_lasting(milliseconds(249));
  EXPECT_EQ(backoff.after_loss(0), milliseconds(250));
  backoff.forget_if_lasting(milliseconds(250));
  EXPECT_EQ(backoff.after_loss(0), nanoseconds(0));
  EXPECT_EQ(backoff.after_failure(0), milliseconds(10));
}

}  // namespace
}  // namespace sluice
