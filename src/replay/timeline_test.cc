#include "replay/timeline.h"

#include <gtest/gtest.h>

namespace sluice::replay {
namespace {

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

}  // namespace
}  // namespace sluice::replay
