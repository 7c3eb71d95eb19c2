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
  EXPECT_EQ(progress_text({.bytes = 50, .lines = 1234}, 200),
            "[#######                       ]  25 %  1,234 lines");
  EXPECT_EQ(progress_text({.bytes = 500, .lines = 1}, 200),
            "[##############################] 100 %  1 lines");
  EXPECT_EQ(progress_text({.bytes = 0, .lines = 1234}, 0), "1,234 lines");
}

}  // namespace
}  // namespace sluice::replay
