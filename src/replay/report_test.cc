#include "replay/report.h"

#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <sstream>
#include <string>

namespace sluice::replay {
namespace {

Summary two_limits() {
  Summary summary{.keys_seen = 345, .limits = {}};
  summary.limits.push_back({.expression = "token_bucket 10/1m",
                            .denied = 234567,
                            .keys_limited = 2,
                            .worst_minute = WorstMinute{1'431'857'100'000'000'000, 72},
                            .most_denied = {{"10.0.0.1", 234000, 300000},
                                            {"\x1b[31m" + std::string(100, 'u'), 567, 568}}});
  summary.limits.push_back({.expression = "sliding_log 5/1m"});
  return summary;
}

// The other lines are in tests/system/golden/report.txt.
TEST(TableReport, CutsKeysAndSaysWhatThereIsNot) {
  const std::string table =
      table_report(two_limits(), {.requests = 1234567, .unreadable = 2}, false);
  EXPECT_THAT(table, testing::StartsWith("1,234,567 requests"));
  EXPECT_THAT(table, testing::HasSubstr("\n2 lines could not be read\n"));
  EXPECT_THAT(table, testing::HasSubstr("\n         234,000     300,000      78.0 %   10.0.0.1\n"));
  EXPECT_THAT(table, testing::HasSubstr("\n             567         568      99.8 %   \\x1b[31m" +
                                        std::string(48, 'u') + "…\n"));
  EXPECT_THAT(table, testing::HasSubstr("\n  worst minute             -\n"));
}

TEST(TableReport, AnEmptyInputHasAReportToo) {
  Summary summary;
  summary.limits.push_back({.expression = "sliding_log 5/1m"});
  std::istringstream lines(table_report(summary, {}, false));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "0 requests");
}

TEST(JsonReport, CountsLateRequests) {
  const auto report = boost::json::parse(
      json_report(two_limits(), {.requests = 1234567, .late = 3, .most_late_ns = 4}));
  EXPECT_EQ(report.at("late_requests").as_int64(), 3);
  EXPECT_EQ(report.at("most_late_ns").as_int64(), 4);
  EXPECT_TRUE(report.at("limits").at(1).at("worst_minute").is_null());
}

TEST(JsonReport, WithoutRequestsThereAreNoTimes) {
  const std::string report = json_report({}, {});
  EXPECT_THAT(report, testing::HasSubstr("\n  \"limits\": []\n"));
  EXPECT_TRUE(boost::json::parse(report).at("first_ns").is_null());
}

}  // namespace
}  // namespace sluice::replay
