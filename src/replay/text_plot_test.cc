#include "replay/text_plot.h"

#include <gtest/gtest.h>

#include "replay/tally.h"

namespace sluice::replay {
namespace {

TEST(TextPlot, DrawsBarsInProportion) {
  const PlotColumns columns{.first_ns = 0, .width_ns = kSecondNs, .counts = {0, 48, 24, 4, 1}};
  EXPECT_EQ(text_plot("a limit", columns, false),
            "\n"
            "a limit\n"
            "  denied per 1s\n"
            "            48 | █\n"
            "               | █\n"
            "               | █\n"
            "               | ██\n"
            "               | ██\n"
            "               | ██▄▁\n"
            "             0 +-----\n"
            "                1970-01-01 00:00:00 to 1970-01-01 00:00:05 UTC\n");
}

TEST(TextPlot, AFewDenialsAreVisible) {
  const PlotColumns columns{.first_ns = 0, .width_ns = 1, .counts = {1'000'000, 1}};
  EXPECT_NE(text_plot("", columns, false).find(" |█▁\n"), std::string::npos);
}

TEST(TextPlot, WithoutDenialsOrRequests) {
  const PlotColumns nothing_denied{.first_ns = 0, .width_ns = 1, .counts = {0, 0}};
  EXPECT_NE(text_plot("t", nothing_denied, false).find(" +--\n"), std::string::npos);
  EXPECT_EQ(text_plot("t", denied_over_time(Charts(1), 0), false), "\nt\n  no requests\n");
}

TEST(TextPlot, ColumnsHaveEveryDenialAndAreFew) {
  Charts charts(2);
  Tally tally({"a", "b"});
  Decision admitted;
  admitted.allowed = true;
  const Decision denied;
  for (int i = 0; i < 5'000; ++i) {
    const Instant now = kSecondNs * (1'000 + i);
    const Tally::KeyId key = tally.count("key");
    const std::array<const Decision*, 2> decisions = {&admitted, i % 5 == 0 ? &denied : &admitted};
    charts.add(tally, key, now, decisions);
  }
  const PlotColumns none = denied_over_time(charts, 0);
  const PlotColumns some = denied_over_time(charts, 1);
  EXPECT_LE(some.counts.size(), kPlotColumns);
  EXPECT_GT(some.counts.size(), kPlotColumns / 4);
  std::uint64_t sum = 0;
  for (const std::uint64_t count : some.counts) sum += count;
  EXPECT_EQ(sum, 1'000U);
  EXPECT_EQ(none.counts, std::vector<std::uint64_t>(some.counts.size()));
  EXPECT_LE(some.first_ns, kSecondNs * 1'000);
  const auto end = static_cast<std::int64_t>(some.counts.size()) * some.width_ns;
  EXPECT_GT(some.first_ns + end, kSecondNs * 5'999);
}

}  // namespace
}  // namespace sluice::replay
