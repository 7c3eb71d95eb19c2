#include "waiting/release_fairness.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

class ReleaseFairnessTest : public testing::Test {
 protected:
  /// Takes and returns `grants` permits in a row, the last one at `end`; each is held for
  /// `held`.
  void pass_on(int grants, ReleaseFairness::TimePoint end, nanoseconds held) {
    for (int i = grants; i > 0; --i) {
      fairness_.granted("k", end - i * held);
      fairness_.released("k", end - (i - 1) * held);
    }
  }

  const ReleaseFairness::TimePoint start_{hours(1)};
  ReleaseFairness fairness_;
};

TEST_F(ReleaseFairnessTest, TheNextRunBeginsAfterTheBackoff) {
  pass_on(4, start_, milliseconds(500));
  const auto after = fairness_.backs_off_until("k");
  EXPECT_EQ(after, start_ + milliseconds(100));
  EXPECT_LE(fairness_.backs_off_until("other"), start_);
  pass_on(3, after + milliseconds(1500), milliseconds(500));
  EXPECT_LE(fairness_.backs_off_until("k"), after);
  pass_on(1, after + milliseconds(2000), milliseconds(500));
  EXPECT_EQ(fairness_.backs_off_until("k"), after + seconds(2) + milliseconds(100));
}

TEST_F(ReleaseFairnessTest, OfLongJobsSomeFollowEachOther) {
  pass_on(3, start_, hours(1));
  EXPECT_LE(fairness_.backs_off_until("k"), start_) << "these are passed on at once";
  pass_on(1, start_ + hours(1), hours(1));
  EXPECT_EQ(fairness_.backs_off_until("k"), start_ + hours(1) + milliseconds(100));
}

TEST_F(ReleaseFairnessTest, ARunBeginsAgainIfOthersCouldHaveAsked) {
  auto now = start_;
  for (int i = 0; i < 100; ++i) {
    pass_on(1, now, milliseconds(900));
    now += milliseconds(900) + ReleaseFairness::kPolling.backoff;
  }
  EXPECT_LE(fairness_.backs_off_until("k"), start_);
  // A moment less, and they had not.
  for (int i = 0; i < 100; ++i) {
    pass_on(1, now, milliseconds(900));
    now += milliseconds(900) + ReleaseFairness::kPolling.backoff - nanoseconds(1);
  }
  EXPECT_GT(fairness_.backs_off_until("k"), start_);
}

TEST_F(ReleaseFairnessTest, HasABound) {
  pass_on(ReleaseFairness::kLeastGrants, start_, milliseconds(1));
  for (std::size_t i = 0; i < ReleaseFairness::kMostKeys; ++i)
    fairness_.granted(std::to_string(i), start_);
  fairness_.released("k", start_ + seconds(2));
  EXPECT_LE(fairness_.backs_off_until("k"), start_ + seconds(2)) << "its run has begun anew";
}

}  // namespace
}  // namespace sluice
