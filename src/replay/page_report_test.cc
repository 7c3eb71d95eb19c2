#include "replay/page_report.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/json.hpp>
#include <map>
#include <string>
#include <vector>

namespace sluice::replay {
namespace {

constexpr Instant kStartNs = 1'431'857'100'000'000'000;

/// What a replay collects, with decisions that need no store.
class Collected {
 public:
  explicit Collected(std::size_t limits)
      : limits_(limits), tally_(names(limits)), charts_(limits), sweep_({}) {}

  /// `denied` has a bit for each limit.
  void add(std::string_view key, Instant time_ns, unsigned denied) {
    const Tally::KeyId id = tally_.count(key);
    std::array<Decision, kMaxCharted> decisions;
    std::array<const Decision*, kMaxCharted> pointers{};
    for (std::size_t limit = 0; limit < limits_; ++limit) {
      decisions[limit] = {.allowed = (denied >> limit & 1U) == 0, .remaining = 1'000'000};
      pointers[limit] = &decisions[limit];
      if (!decisions[limit].allowed) tally_.count_denied(limit, id, time_ns);
    }
    charts_.add(tally_, id, time_ns, std::span(pointers).first(limits_));
  }

  /// The data of the page, which is small enough.
  boost::json::value data() const {
    const std::string page = page_report({.tally = tally_,
                                          .charts = charts_,
                                          .sweep = sweep_,
                                          .log = log_,
                                          .command = "sluice replay"});
    EXPECT_LE(page.size(), kMaxPageBytes);
    constexpr std::string_view kBegin = R"(id="data">)";
    const std::size_t at = page.find(kBegin) + kBegin.size();
    return boost::json::parse(page.substr(at, page.find("</script>", at) - at));
  }

 private:
  static std::vector<std::string> names(std::size_t limits) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < limits; ++i) names.push_back("limit " + std::to_string(i));
    return names;
  }

  std::size_t limits_;
  LogSummary log_{.key = "{ip}"};
  Tally tally_;
  Charts charts_;
  Sweep sweep_;
};

std::int64_t sum(const boost::json::value& numbers) {
  std::int64_t sum = 0;
  for (const auto& number : numbers.as_array()) sum += number.to_number<std::int64_t>();
  return sum;
}

/// Adds the requests of a timeline by their steps.
void add_steps(std::map<std::int64_t, std::int64_t>& requests, const boost::json::value& timeline) {
  const auto& steps = timeline.at("steps").as_array();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    requests[steps[i].as_int64()] += timeline.at("requests").at(i).as_int64();
  }
}

TEST(PageReport, KeysThatAreCutToTheSameTextHaveTheirOwnTimelines) {
  const std::string begin(kPageKeyColumns, 'x');
  Collected collected(2);
  for (int i = 0; i < 5; ++i) collected.add(begin + "a", kStartNs, 1);
  for (int i = 0; i < 3; ++i) collected.add(begin + "b", kStartNs, 3);
  const auto data = collected.data();
  EXPECT_EQ(data.at("keys").at(0).at("key").as_string(), begin.substr(1) + "…");
  const auto requests_of = [&](std::size_t limit, std::size_t row) {
    const auto timeline = data.at("timelines").at(limit).at(row).to_number<std::size_t>();
    const auto& count = data.at("report").at("limits").at(limit).at("most_denied").at(row);
    EXPECT_EQ(count.at("key"), data.at("keys").at(timeline).at("key"));
    EXPECT_EQ(count.at("requests"), sum(data.at("keys").at(timeline).at("requests")));
    return sum(data.at("keys").at(timeline).at("requests"));
  };
  EXPECT_EQ(requests_of(0, 0), 5);
  EXPECT_EQ(requests_of(0, 1), 3);
  EXPECT_EQ(requests_of(1, 0), 3);
}

// Eight limits that deny fifty long keys each, everywhere in a long time: all steps are made wider
// until the page is small enough. No request is lost, and in each step the keys, which are all keys
// here, have the requests of the whole.
TEST(PageReport, IsBounded) {
  constexpr int kRequests = kMaxSteps / 4;
  Collected collected(kMaxCharted);
  std::vector<std::string> names;
  for (std::size_t key = 0; key < kMaxCharted * kMostDeniedOnPage; ++key) {
    names.push_back("<" + std::to_string(key) + std::string(200, '<'));
  }
  for (int step = 0; step < kRequests; ++step) {
    for (std::size_t key = 0; key < names.size(); ++key) {
      collected.add(names[key], kStartNs + step * 240'000'000'000, 1U << key % kMaxCharted);
    }
  }
  const auto data = collected.data();
  EXPECT_GT(data.at("step_ns").as_int64(), 240'000'000'000);
  ASSERT_EQ(data.at("keys").as_array().size(), kMaxCharted * kMostDeniedOnPage);
  std::map<std::int64_t, std::int64_t> of_keys;
  for (const auto& key : data.at("keys").as_array()) {
    EXPECT_EQ(sum(key.at("requests")), kRequests);
    add_steps(of_keys, key);
  }
  std::map<std::int64_t, std::int64_t> of_all;
  add_steps(of_all, data.at("timeline"));
  EXPECT_EQ(of_keys, of_all);
}

}  // namespace
}  // namespace sluice::replay
