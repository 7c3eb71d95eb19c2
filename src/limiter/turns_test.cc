#include "limiter/turns.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

const Turns::TimePoint kStart{std::chrono::hours(1)};

TEST(Turns, RestAfterATurn) {
  Turns turns;
  EXPECT_LE(turns.rests_until("k"), kStart);
  turns.released("k", kStart);
  turns.released("k", kStart + seconds(2) - nanoseconds(1));
  EXPECT_LE(turns.rests_until("k"), kStart) << "its turn is not over";
  turns.released("k", kStart + seconds(2));
  EXPECT_EQ(turns.rests_until("k"), kStart + seconds(2) + milliseconds(100));
  EXPECT_LE(turns.rests_until("other"), kStart);
}

TEST(Turns, TheNextTurnBeginsAfterTheRest) {
  Turns turns;
  turns.released("k", kStart);
  turns.released("k", kStart + seconds(2));
  const auto rested = turns.rests_until("k");
  turns.released("k", rested + seconds(1));
  EXPECT_EQ(turns.rests_until("k"), rested);
  turns.released("k", rested + seconds(2));
  EXPECT_EQ(turns.rests_until("k"), rested + seconds(2) + milliseconds(100));
}

TEST(Turns, AreShortWhereTheStoreTells) {
  Turns turns;
  turns.store_tells();
  turns.released("k", kStart);
  turns.released("k", kStart + milliseconds(100));
  EXPECT_EQ(turns.rests_until("k"), kStart + milliseconds(104));
}

TEST(Turns, HaveABound) {
  Turns turns;
  turns.released("k", kStart);
  for (std::size_t i = 0; i < Turns::kMostKeys; ++i) turns.released(std::to_string(i), kStart);
  turns.released("k", kStart + seconds(2));
  EXPECT_LE(turns.rests_until("k"), kStart + seconds(2)) << "its turn has begun anew";
}

}  // namespace
}  // namespace sluice
