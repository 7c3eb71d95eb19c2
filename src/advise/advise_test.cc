#include "advise/advise.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>
#include <string>

#include "replay/command_line.h"
#include "servers/temporary_folder.h"
#include "sluice/limit.h"

namespace sluice::advise {
namespace {

struct Result {
  int status = -1;
  std::string out;
  std::string err;
};

Result run(const AdviseOptions& options) {
  std::ostringstream out;
  std::ostringstream err;
  const int status = run_advise(options, {.out = out, .err = err});
  return {status, out.str(), err.str()};
}

class Advise : public ::testing::Test {
 protected:
  Result advise(const std::string& text, bool is_json = true) {
    return run({.log = {.files = {directory_.write("in", text)}}, .is_json = is_json});
  }

  servers::TemporaryFolder directory_;
};

/// A hundred keys that each ask for a few units a minute, for half an hour.
std::string calm_keys() {
  std::string csv = "time,key\n";
  for (int second = 0; second < 1'800; ++second) {
    for (int key = second % 20; key < 100; key += 20) {
      csv += std::to_string(second) + ",key" + std::to_string(key) + '\n';
    }
  }
  return csv;
}

TEST_F(Advise, WithoutOutliersBalancedDeniesAtMostAHundredthOfTheKeys) {
  const auto advice = boost::json::parse(advise(calm_keys()).out);
  EXPECT_EQ(advice.at("keys").as_int64(), 100);
  const auto& balanced = advice.at("suggestions").at(1);
  EXPECT_EQ(balanced.at("keys_limited").as_int64(), 0);
  // 1 denies nothing either, but strict has to be smaller.
  EXPECT_TRUE(balanced.at("limit_expr").as_string().ends_with("burst=2"));
  EXPECT_NE(balanced.at("reason").as_string().find(
                "No small group of keys stands out, so this is the round number closest to"),
            std::string::npos);
}

TEST_F(Advise, ThePageHasLongTextsCut) {
  std::string csv = "time,key\n";
  for (int second = 0; second < 2'000; ++second) {
    csv += std::to_string(second) + ",key" + std::to_string(second % 100) + '\n';
    for (int i = 0; i < 5; ++i)
      csv += std::to_string(second) + ',' + std::string(1'000, 'x') + '\n';
  }
  AdviseOptions choice{.log = {.files = {directory_.write("in", csv)}}, .is_json = true};
  choice.html = directory_.path("page.html");
  const Result result = run(choice);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find(std::string(1'000, 'x')), std::string::npos);
  const std::string page = directory_.read("page.html");
  EXPECT_NE(page.find(std::string(70, 'x')), std::string::npos);
  EXPECT_EQ(page.find(std::string(81, 'x')), std::string::npos);
}

TEST_F(Advise, CountsUnitsInWindowsOfExactlyTheLength) {
  std::string csv = "time,key\n";
  for (int second = 0; second < 200; ++second) csv += std::to_string(second) + ",a\n";
  const auto advice = boost::json::parse(advise(csv).out);
  const auto& windows = advice.at("units_in_any_window");
  EXPECT_EQ(windows.at(0).at("most").as_int64(), 1);
  EXPECT_EQ(windows.at(1).at("most").as_int64(), 10);
  EXPECT_EQ(windows.at(2).at("50%").as_int64(), 60);
  EXPECT_EQ(advice.at("hit_first").at(0).at("busiest_minute").as_int64(), 60);
}

// Of more than 300 units it cannot tell exactly.
TEST_F(Advise, CountsManyUnitsInWindowsUpToATenthLonger) {
  std::string csv = "time,key\n";
  for (int tenth = 0; tenth < 1'200; ++tenth) csv += std::to_string(tenth / 10) + ",a\n";
  const auto advice = boost::json::parse(advise(csv).out);
  EXPECT_EQ(advice.at("units_in_any_window").at(1).at("most").as_int64(), 100);
  const std::int64_t minute = advice.at("units_in_any_window").at(2).at("most").as_int64();
  EXPECT_GE(minute, 600);
  EXPECT_LE(minute, 660);
  EXPECT_EQ(advice.at("hit_first").at(0).at("busiest_minute").as_int64(), minute);
}

TEST_F(Advise, RequestsThatComeTooLateAreNoReasonForALimit) {
  std::string csv = "time,key,cost\n";
  for (const int begin : {200'000, 0}) {
    for (int i = 0; i < 150'000; ++i) {
      csv += std::to_string(begin + i) + (i % 1'000 == 0 ? ",a,1\n" : ",a,0\n");
    }
  }
  const auto advice = boost::json::parse(advise(csv).out);
  EXPECT_TRUE(advice.at("suggestions").as_array().empty());
  EXPECT_NE(boost::json::serialize(advice.at("unknowns")).find("too late"), std::string::npos);
}

TEST_F(Advise, StrictDoesNotLeaveWhatItDenies) {
  std::string csv = "time,key\n";
  for (int second = 0; second < 100; ++second) csv += std::to_string(second) + ",a\n";
  const auto strict = boost::json::parse(advise(csv).out).at("suggestions").at(0);
  EXPECT_EQ(strict.at("keys_limited").as_int64(), 1);
  EXPECT_EQ(strict.at("reason").as_string(),
            "The round number below balanced: it denies something to most keys. Choose it only "
            "where a request is costly.");
}

// A request of several units is one of those that are denied.
TEST_F(Advise, OfAKeyThatStandsOutItCountsRequests) {
  std::string csv = "time,key,cost\n";
  for (int i = 0; i < 100; ++i) {
    csv += std::to_string(i) + ",key" + std::to_string(i % 10) + (i == 50 ? ",1000000\n" : ",1\n");
  }
  const auto advice = boost::json::parse(advise(csv).out);
  EXPECT_EQ(advice.at("suggestions").at(1).at("reason").as_string(),
            "1 key stands out: 10.0 % of its requests are denied, and there is room for twice what "
            "every other key asked for.");
}

TEST_F(Advise, EverySuggestionIsALimit) {
  for (const char* costs : {"1", "0", "7", "1000000", "9007199254740991"}) {
    std::string csv = "time,key,cost\n";
    for (int i = 0; i < 50; ++i) {
      csv += std::to_string(i * i) + ",key" + std::to_string(i % 7) + ',' + costs + '\n';
    }
    const Result result = advise(csv);
    ASSERT_EQ(result.status, 0) << result.err;
    const auto advice = boost::json::parse(result.out);
    const auto& suggestions = advice.at("suggestions").as_array();
    EXPECT_EQ(suggestions.size(), std::string_view(costs) == "0" ? 0U : 3U);
    for (const auto& each : suggestions) {
      EXPECT_NO_THROW(Limit(std::string(each.at("limit_expr").as_string())));
    }
  }
}

TEST_F(Advise, DescribesKeysByTheFieldsThatAJsonLineHas) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += R"({"time":)" + std::to_string(i) + R"(,"key":"a")" +
             (i % 4 == 0 ? R"(,"status":503,"path":"/a?page=)" + std::to_string(i) + "\"}\n"
                         : R"(,"status":"404","user_agent":"bot"})" + std::string("\n"));
  }
  const auto hit = boost::json::parse(advise(lines).out).at("hit_first").at(0);
  EXPECT_EQ(hit.at("requests").as_int64(), 40);
  EXPECT_EQ(hit.at("status_4xx").as_int64(), 30);
  EXPECT_EQ(hit.at("status_5xx").as_int64(), 10);
  EXPECT_EQ(hit.at("user_agent").as_string(), "bot");
  EXPECT_EQ(hit.at("path").as_string(), "/a");
  const auto bare = boost::json::parse(advise("time,key\n1,a\n").out).at("hit_first").at(0);
  EXPECT_TRUE(bare.at("status_4xx").is_null() && bare.at("status_5xx").is_null());
}

TEST_F(Advise, ATextIsSafeForATerminal) {
  const Result result = advise("time,key,path\n1,\"a\x1b[2J\",/\x1b\n1,b,/\n70,b,/\n", false);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  EXPECT_NE(result.out.find("a\\x1b[2J"), std::string::npos);
}

TEST_F(Advise, LongNumbersAreSeparate) {
  const Result result = advise("time,key,cost\n1,a,1000000000000\n20,b,1\n", false);
  EXPECT_EQ(result.out.find(",0001"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("1,000,000,000,000 1,000,000,000,000\n"), std::string::npos);
}

TEST_F(Advise, TheCommandReplaysTheSameKeys) {
  std::string csv = "time,user\n";
  for (int i = 0; i < 100; ++i) csv += std::to_string(i) + ",a\n";
  const std::string file = directory_.write("it's", csv);
  const std::string key = R"({user} \ it's)";
  const replay::LogOptions log{.files = {file}, .key = key, .format = replay::Format::kCsv};
  const Result result = run({.log = log});
  const std::string command = replay::command_line({.log = log});
  EXPECT_NE(result.out.find("\n    " + command + " --limit 'token_bucket "), std::string::npos)
      << result.out;
}

TEST_F(Advise, SaysThatItIsASample) {
  std::string csv = "time,key\n";
  for (int i = 0; i < 5'000; ++i) csv += std::to_string(i) + ",key" + std::to_string(i) + '\n';
  const Result result = run({.log = {.files = {directory_.write("in", csv)}},
                             .is_json = true,
                             .max_bytes = std::size_t{1} << 20});
  const auto advice = boost::json::parse(result.out);
  EXPECT_TRUE(advice.at("is_sample").as_bool());
  EXPECT_LT(advice.at("keys_kept").as_int64(), 2'000);
  EXPECT_NEAR(static_cast<double>(advice.at("keys").as_int64()), 5'000, 1'500);
  EXPECT_TRUE(advice.at("suggestions")
                  .at(2)
                  .at("reason")
                  .as_string()
                  .starts_with("Would have denied nothing to the keys of the sample; it denies "
                               "only keys that ask for more "
                               "than these did."));
}

TEST_F(Advise, AnEmptyInputHasNoAdvice) {
  const Result result = advise("", false);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "0 requests of 0 keys\n");
}

TEST_F(Advise, DataWithoutUnitsSaysWhyThereIsNoAdvice) {
  const Result result = advise("time,key,cost\n1,a,0\n", false);
  EXPECT_EQ(result.out.find("Start with one of these"), std::string::npos);
  EXPECT_NE(result.out.find("All of these requests are peeks"), std::string::npos);
}

TEST_F(Advise, DataOfOneInstantHasNoTableOfWindows) {
  const Result result = advise("time,key\n1,a\n", false);
  EXPECT_EQ(result.out.find("What keys ask for"), std::string::npos);
  EXPECT_NE(result.out.find("Start with one of these"), std::string::npos);
}

TEST_F(Advise, SaysWhatIsWrong) {
  EXPECT_EQ(run({.log = {.files = {directory_.path("absent")}}}).err,
            "sluice advise: " + directory_.path("absent") + ": No such file or directory\n");
  EXPECT_EQ(run({.log = {.key = "{ip"}}).status, 2);
  const std::string log = directory_.write("log.csv", "time,key\n1,a\n");
  EXPECT_EQ(run({.log = {.files = {log}}, .html = log}).err,
            "sluice advise: --html: " + log + " is also read and would be lost\n");
  EXPECT_EQ(directory_.read("log.csv"), "time,key\n1,a\n");
}

}  // namespace
}  // namespace sluice::advise
