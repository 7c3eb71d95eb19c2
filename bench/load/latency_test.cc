#include "load/latency.h"

#include <gtest/gtest.h>

namespace sluice::bench {
namespace {

TEST(LatencyHistogram, QuantilesAreRightToAThirtySecond) {
  LatencyHistogram histogram;
  for (std::uint64_t us = 1; us <= 1000; ++us) histogram.add(us * 1000, 1);
  EXPECT_NEAR(static_cast<double>(histogram.quantile_ns(0.5)), 500e3, 500e3 / 32);
  EXPECT_NEAR(static_cast<double>(histogram.quantile_ns(0.99)), 990e3, 990e3 / 32);
}

TEST(LatencyHistogram, ExtremesHaveABucket) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.quantile_ns(0.5), 0u);
  histogram.add(0, 1);
  EXPECT_EQ(histogram.quantile_ns(1.0), 0u);
  histogram.add(~std::uint64_t{0}, 3);
  EXPECT_EQ(histogram.quantile_ns(1.0), ~std::uint64_t{0});
}

}  // namespace
}  // namespace sluice::bench
