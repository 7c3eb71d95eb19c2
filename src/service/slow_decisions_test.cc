#include "service/slow_decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/manual_clock.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using testing::IsEmpty;
using testing::SizeIs;

std::int64_t ns(std::chrono::nanoseconds time) {
  return time.count();
}

class SlowDecisionsTest : public testing::Test {
 protected:
  SlowDecisionsTest() {
    slow.set_report([this](const SlowBatch& batch) { reported.push_back(batch); });
  }

  ManualClock clock;
  SlowDecisions slow{[](std::uint16_t limit) { return "limit" + std::to_string(limit); },
                     open_store("memory:", clock)};
  const std::vector<ReplySlot> slots{{.limit = 2}, {.limit = 1}, {.limit = 2}};
  std::vector<SlowBatch> reported;
};

TEST_F(SlowDecisionsTest, ReportsWhatTookLongerThanTheThreshold) {
  slow.note(ns(std::chrono::hours(1)), slots);
  EXPECT_THAT(reported, IsEmpty());
  slow.set_threshold(milliseconds(100));
  slow.note(ns(milliseconds(100)), slots);
  EXPECT_THAT(reported, IsEmpty());
  slow.note(ns(milliseconds(101)), slots);
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].limits, "limit1, limit2");
  EXPECT_EQ(reported[0].decisions, 3U);
  EXPECT_EQ(reported[0].duration, milliseconds(101));
  EXPECT_EQ(reported[0].left_out, 0U);
}

TEST_F(SlowDecisionsTest, LeavesOutThoseBeyondItsLimitAndSaysHowMany) {
  slow.set_threshold(milliseconds(1));
  for (int i = 0; i < 25; ++i) slow.note(ns(milliseconds(2)), slots);
  EXPECT_THAT(reported, SizeIs(10));
  clock.advance(std::chrono::seconds(1));
  slow.note(ns(milliseconds(2)), slots);
  slow.note(ns(milliseconds(2)), slots);
  ASSERT_THAT(reported, SizeIs(11));
  EXPECT_EQ(reported[10].left_out, 15U);
  clock.advance(std::chrono::seconds(1));
  slow.note(ns(milliseconds(2)), slots);
  EXPECT_EQ(reported[11].left_out, 1U);
}

}  // namespace
}  // namespace sluice
