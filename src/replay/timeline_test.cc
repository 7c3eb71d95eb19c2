#include "replay/timeline.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::replay {
namespace {

TEST(TimeSteps, AreNarrowForAShortTime) {
  TimeSteps steps;
  EXPECT_EQ(steps.include(7 * kMillisecondNs), 1);
  EXPECT_EQ(steps.include(7 * kMillisecondNs + (kMaxSteps - 1) * kMillisecondNs), 1);
  EXPECT_EQ(steps.width_ns(), kMillisecondNs);
  EXPECT_EQ(steps.step(8 * kMillisecondNs - 1), 7);
}

TEST(TimeSteps, WidenSoThatThereAreFewOfThem) {
  TimeSteps steps;
  steps.include(5000 * kMillisecondNs);
  std::int64_t width = kMillisecondNs;
  for (Instant time = 5000 * kMillisecondNs; time < 40'000 * kDayNs; time *= 3) {
    const std::int64_t factor = steps.include(time);
    EXPECT_EQ(steps.width_ns(), width * factor);
    width = steps.width_ns();
    EXPECT_LT(steps.step(time) - steps.step(5000 * kMillisecondNs), kMaxSteps);
  }
  EXPECT_EQ(width % kDayNs, 0);
}

TEST(TimeSteps, WidenForAnEarlierTimeToo) {
  TimeSteps steps;
  steps.include(std::int64_t{1} << 61);
  steps.include(0);
  EXPECT_LT(steps.step(std::int64_t{1} << 61), kMaxSteps);
}

// 17 hours of an access log.
TEST(TimeSteps, HaveRoundWidths) {
  TimeSteps steps;
  steps.include(0);
  steps.include(17 * kHourNs);
  EXPECT_EQ(steps.width_ns(), 5 * kMinuteNs);
}

TEST(Timeline, KeepsStepsInOrder) {
  Timeline timeline;
  for (const std::int64_t step : {5, 7, 6, 5, 2}) ++timeline.at(step).requests;
  ASSERT_EQ(timeline.steps().size(), 4U);
  EXPECT_EQ(timeline.steps()[0].step, 2);
  EXPECT_EQ(timeline.steps()[1].requests, 2U);
  EXPECT_EQ(timeline.steps()[3].step, 7);
  EXPECT_EQ(timeline.steps()[3].level[0], std::numeric_limits<std::int64_t>::max());
}

TEST(Timeline, JoinsStepsWhenWidened) {
  Timeline timeline;
  for (std::int64_t step = 3; step < 13; ++step) {
    StepCounts& counts = timeline.at(step);
    counts.requests = 10;
    counts.denied[1] = 1;
    counts.level[1] = step;
  }
  timeline.widen(5);
  ASSERT_EQ(timeline.steps().size(), 3U);
  EXPECT_EQ(timeline.steps()[0].requests, 20U);
  EXPECT_EQ(timeline.steps()[1].step, 1);
  EXPECT_EQ(timeline.steps()[1].requests, 50U);
  EXPECT_EQ(timeline.steps()[1].denied[1], 5U);
  EXPECT_EQ(timeline.steps()[1].level[1], 5);
  EXPECT_EQ(timeline.steps()[2].requests, 30U);
}

}  // namespace
}  // namespace sluice::replay
