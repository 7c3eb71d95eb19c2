#include "replay/text.h"

#include <gtest/gtest.h>

#include <string>

#include "replay/progress.h"

namespace sluice::replay {
namespace {

TEST(Text, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(percent(0, 0), "0.0 %");
  EXPECT_EQ(percent(1, 3), "33.3 %");
  EXPECT_EQ(percent(1, 1'000'000), "<0.1 %");
  EXPECT_EQ(percent(999'999, 1'000'000), ">99.9 %");
  EXPECT_EQ(percent(5, 5), "100.0 %");
}

TEST(Text, Times) {
  EXPECT_EQ(utc_second(0), "1970-01-01 00:00:00");
  EXPECT_EQ(utc_second(1'431'857'103'999'999'999), "2015-05-17 10:05:03");
  EXPECT_EQ(utc_second(kEndOfTime - 1), "2116-02-20 23:53:38");
}

TEST(Text, ProgressShowsTheShareOfKnownBytes) {
  using std::chrono::seconds;
  EXPECT_EQ(progress_text({.bytes = 50, .lines = 1234}, 200, seconds(0)),
            "[####              ]  25 %  1,234 lines");
  EXPECT_EQ(progress_text({.bytes = 500, .lines = 1}, 200, seconds(0)),
            "[##################] 100 %  1 lines");
  EXPECT_EQ(progress_text({.bytes = 0, .lines = 1234}, 0, seconds(0)), "1,234 lines");
}

TEST(Text, ProgressShowsTheRateAndTheTimeLeft) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  EXPECT_EQ(progress_text({.bytes = 50, .lines = 5'000'000}, 200, milliseconds(2'500)),
            "[####              ]  25 %  5,000,000 lines  2,000,000/s  0:08 left");
  EXPECT_EQ(progress_text({.bytes = 50, .lines = 1'000}, 200, seconds(1'303)),
            "[####              ]  25 %  1,000 lines  0/s  1:05:09 left");
  EXPECT_EQ(progress_text({.bytes = 200, .lines = 1'000}, 200, seconds(1)),
            "[##################] 100 %  1,000 lines  1,000/s  0:00 left");
  EXPECT_EQ(progress_text({.bytes = 9, .lines = 1'000}, 0, seconds(2)), "1,000 lines  500/s");
  EXPECT_EQ(progress_text({.bytes = 0, .lines = 1'000}, 1'000, seconds(2)),
            "[                  ]   0 %  1,000 lines  500/s");
  // At most 79 columns, and a bounded time.
  const std::string longest =
      progress_text({.bytes = 1, .lines = 999'999'999'999}, 1'000'000'000'000, seconds(99'999));
  EXPECT_NE(longest.find("99:00:00 left"), std::string::npos);
  EXPECT_LE(longest.size(), 79U);
}

}  // namespace
}  // namespace sluice::replay
