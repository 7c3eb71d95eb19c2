#include "replay/report.h"

#include <gtest/gtest.h>

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

TEST(TableReport, IsAligned) {
  EXPECT_EQ(table_report(two_limits(),
                         {.requests = 1234567,
                          .first_ns = 1'431'857'103'000'000'000,
                          .last_ns = 1'431'943'503'000'000'000,
                          .key = "{ip}",
                          .unreadable = 2},
                         false),
            R"(1,234,567 requests, 2015-05-17 10:05:03 to 2015-05-18 10:05:03 UTC
key {ip}
2 lines could not be read

token_bucket 10/1m
  requests         1,234,567
  admitted         1,000,000
  denied             234,567      19.0 %
  keys seen              345
  keys limited             2       0.6 %
  worst minute            72   denied in 2015-05-17 10:05 UTC

          denied    requests       share   denied most
         234,000     300,000      78.0 %   10.0.0.1
             567         568      99.8 %   \x1b[31muuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu…

sliding_log 5/1m
  requests         1,234,567
  admitted         1,234,567
  denied                   0       0.0 %
  keys seen              345
  keys limited             0       0.0 %
  worst minute             -

side by side                                         admitted      denied       share   keys limited
token_bucket 10/1m                                  1,000,000     234,567      19.0 %              2
sliding_log 5/1m                                    1,234,567           0       0.0 %              0
)");
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
  const auto report = boost::json::parse(json_report({}, {}));
  EXPECT_TRUE(report.at("first_ns").is_null());
  EXPECT_TRUE(report.at("limits").as_array().empty());
}

}  // namespace
}  // namespace sluice::replay
