#include "limiter/turns.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

class TurnsTest : public testing::Test {
 protected:
  /// Takes and gives back `grants` permits in a row, the last one at `end`; each is held for
  /// `held`.
  void pass_on(int grants, Turns::TimePoint end, nanoseconds held) {
    for (int i = grants; i > 0; --i) {
      turns_.granted("k", end - i * held);
      turns_.released("k", end - (i - 1) * held);
    }
  }

  const Turns::TimePoint start_{hours(1)};
  Turns turns_;
};

TEST_F(TurnsTest, RestAfterATurn) {
  EXPECT_LE(turns_.rests_until("k"), start_);
  pass_on(2000 - 1, start_ + seconds(2) - milliseconds(1), milliseconds(1));
  EXPECT_LE(turns_.rests_until("k"), start_) << "its turn is not over";
  pass_on(1, start_ + seconds(2), milliseconds(1));
  EXPECT_EQ(turns_.rests_until("k"), start_ + seconds(2) + milliseconds(100));
  EXPECT_LE(turns_.rests_until("other"), start_);
}

TEST_F(TurnsTest, TheNextTurnBeginsAfterTheRest) {
  pass_on(4, start_, milliseconds(500));
  const auto rested = turns_.rests_until("k");
  EXPECT_EQ(rested, start_ + milliseconds(100));
  pass_on(3, rested + milliseconds(1500), milliseconds(500));
  EXPECT_LE(turns_.rests_until("k"), rested);
  pass_on(1, rested + milliseconds(2000), milliseconds(500));
  EXPECT_EQ(turns_.rests_until("k"), rested + seconds(2) + milliseconds(100));
}

TEST_F(TurnsTest, AreShortWhereTheStoreTells) {
  turns_.store_tells();
  pass_on(Turns::kLeastGrants, start_, milliseconds(25));
  EXPECT_EQ(turns_.rests_until("k"), start_ + milliseconds(4));
}

TEST_F(TurnsTest, OfLongJobsAreSomeInARow) {
  pass_on(3, start_, hours(1));
  EXPECT_LE(turns_.rests_until("k"), start_) << "these are passed on at once";
  pass_on(1, start_ + hours(1), hours(1));
  EXPECT_EQ(turns_.rests_until("k"), start_ + hours(1) + milliseconds(100));
}

TEST_F(TurnsTest, BeginAnewWhereOthersHadTheirChance) {
  auto now = start_;
  for (int i = 0; i < 100; ++i) {
    pass_on(1, now, milliseconds(900));
    now += milliseconds(900) + Turns::kWhereAsked.rest;
  }
  EXPECT_LE(turns_.rests_until("k"), start_);
  // A moment less, and they had not.
  for (int i = 0; i < 100; ++i) {
    pass_on(1, now, milliseconds(900));
    now += milliseconds(900) + Turns::kWhereAsked.rest - nanoseconds(1);
  }
  EXPECT_GT(turns_.rests_until("k"), start_);
}

TEST_F(TurnsTest, HaveABound) {
  pass_on(Turns::kLeastGrants, start_, milliseconds(1));
  for (std::size_t i = 0; i < Turns::kMostKeys; ++i) turns_.granted(std::to_string(i), start_);
  turns_.released("k", start_ + seconds(2));
  EXPECT_LE(turns_.rests_until("k"), start_ + seconds(2)) << "its turn has begun anew";
}

}  // namespace
}  // namespace sluice
