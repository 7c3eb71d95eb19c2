#include "replay/replay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "replay/output_file.h"
#include "replay/time_order.h"
#include "replay/timeline.h"
#include "servers/temporary_folder.h"
#include "testing/gzipped.h"

namespace sluice::replay {
namespace {

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

Outcome run(const ReplayOptions& options) {
  std::ostringstream out;
  std::ostringstream err;
  const int status = run_replay(options, {.out = out, .err = err});
  return {status, out.str(), err.str()};
}

/// A number from the first limit of a JSON summary.
std::int64_t number(const Outcome& outcome, std::string_view name) {
  return boost::json::parse(outcome.out).at("limits").at(0).at(name).as_int64();
}

std::string log_line(std::string_view ip, std::string_view time) {
  return std::string(ip) + " - - [17/May/2015:" + std::string(time) +
         " +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"curl\"\n";
}

/// At most twice its reach waits in a TimeOrder.
constexpr int kMoreThanWait = static_cast<int>(2 * TimeOrder::kReach) + 1'000;

class Replay : public ::testing::Test {
 protected:
  ReplayOptions options(const std::string& file) const {
    return {.log = {.files = {file}}, .limits = {"token_bucket 1/1s burst=2"}, .is_json = true};
  }
  /// The file of decisions of a replay without a fault.
  std::string decisions_of(ReplayOptions choice) {
    choice.decisions = directory_.path("decisions");
    const Outcome outcome = run(choice);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    return directory_.read("decisions");
  }

  servers::TemporaryFolder directory_;
};

// Each line acquires a permit and keeps it until it expires.
TEST_F(Replay, NoPermitIsReleased) {
  ReplayOptions choice = options(directory_.write(
      "in.csv", "time,key,cost\n1,a,1\n2,a,1\n3,a,1\n3,b,1\n3,b,2\n10.999999999,a,1\n11,a,1\n"));
  choice.limits = {"concurrency 2 lease=10s"};
  choice.decisions = directory_.path("decisions");
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(number(outcome, "requests"), 7);
  EXPECT_EQ(number(outcome, "denied"), 3);
  const std::string decisions = directory_.read("decisions");
  EXPECT_NE(decisions.find(R"("time_ns":3000000000,"key":"a","cost":1)"
                           R"(,"limit_expr":"concurrency 2 lease=10s","allowed":false,"limit":2)"
                           R"(,"remaining":0,"retry_after_ns":8000000000)"),
            std::string::npos);
  EXPECT_NE(decisions.find(R"("key":"b","cost":2,"limit_expr":"concurrency 2 lease=10s")"
                           R"(,"allowed":false,"limit":2,"remaining":1,"retry_after_ns":-1)"),
            std::string::npos);
}

TEST_F(Replay, WarnsOnceOfACostThatIsMoreThanAPermit) {
  const std::string file = directory_.write("in.csv", "time,key,cost\n1,a,1\n2,a,2\n3,a,3\n");
  ReplayOptions choice = options(file);
  choice.limits = {"fixed_window 5/1m", "concurrency 10"};
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, file +
                             ":3: cost 2: 'concurrency 10' denies this line, and each whose cost "
                             "is above 1, for a request takes one permit\n");
  choice.limits = {"fixed_window 5/1m"};
  EXPECT_EQ(run(choice).err, "");
}

TEST_F(Replay, ADecisionsFileReplaysToItself) {
  const std::string csv = "time,key\n1.25,a\n1.25,a\n1.25,a\n2.5,b\n";
  const std::string first = decisions_of(options(directory_.write("in", csv)));
  EXPECT_NE(first, "");
  EXPECT_EQ(decisions_of(options(directory_.write("again", first))), first);
}

TEST_F(Replay, ABatchOfEqualInstantsDecidesAsOneByOne) {
  std::string csv = "time,key\n";
  for (int i = 0; i < 1000; ++i) csv += "1,a\n";
  ReplayOptions choice = options(directory_.write("in.csv", csv));
  choice.limits = {"sliding_log 700/1m"};
  const Outcome outcome = run(choice);
  EXPECT_EQ(number(outcome, "admitted"), 700);
  EXPECT_EQ(number(outcome, "denied"), 300);
}

TEST_F(Replay, ReadsManyFilesAlsoGzip) {
  ReplayOptions choice = options(directory_.write("a.csv", "time,key\n1,a\n"));
  choice.log.files.push_back(directory_.write("b.gz", gzipped(R"({"time":1,"key":"a"})")));
  choice.log.files.push_back(directory_.write("c", log_line("a", "10:00:00")));
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(number(outcome, "requests"), 3);
  EXPECT_EQ(number(outcome, "keys_seen"), 1);
  EXPECT_EQ(boost::json::parse(outcome.out).at("key").as_string(), "{key}, {ip}");
}

// Of servers whose logs span the same time, or of one server in any order. One is longer than what
// waits for its place.
TEST_F(Replay, MergesFilesByTime) {
  constexpr int kQuiet = 100;
  std::string busy = "time,key\n";
  std::string quiet = busy;
  for (int i = 0; i < kMoreThanWait; ++i) {
    busy += std::to_string(i) + ",a\n";
    if (i < kQuiet) quiet += std::to_string(i) + ".5,a\n";
  }
  const std::string one = directory_.write("busy.csv", busy);
  const std::string other = directory_.write("quiet.csv", quiet);
  for (const std::vector<std::string>& files : {std::vector{one, other}, std::vector{other, one}}) {
    ReplayOptions choice = options({});
    choice.log.files = files;
    const Outcome outcome = run(choice);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(number(outcome, "requests"), kMoreThanWait + kQuiet);
    EXPECT_EQ(boost::json::parse(outcome.out).at("late_requests").as_int64(), 0);
  }
}

// The second file is longer than what waits for its place. It begins where the first one ends, as
// rotated logs do.
TEST_F(Replay, WrongTimesDoNotHoldBackTheirFile) {
  constexpr int kOlder = 1'000;
  std::string newer = "time,key\n";
  for (int i = kOlder; i < kOlder + kMoreThanWait; ++i) newer += std::to_string(i) + ",a\n";
  const std::string newer_file = directory_.write("newer.csv", newer);
  for (const int wrong : {1, 100}) {
    std::string older = "time,key\n";
    for (int i = 0; i < kOlder; ++i) {
      const bool is_wrong = i >= kOlder / 2 && i < kOlder / 2 + wrong;
      older += (is_wrong ? "4070908800" : std::to_string(i)) + ",a\n";  // 2099.
    }
    ReplayOptions choice = options(directory_.write("older.csv", older));
    choice.log.files.push_back(newer_file);
    const Outcome outcome = run(choice);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(number(outcome, "requests"), kOlder + kMoreThanWait);
    EXPECT_EQ(boost::json::parse(outcome.out).at("late_requests").as_int64(), 0) << wrong;
  }
}

// After it come more requests than wait for their places.
TEST_F(Replay, ALongPauseOfAFileIsNoWrongTime) {
  std::string paused = "time,key\n0,a\n";
  for (int i = 0; i < kMoreThanWait; ++i) paused += std::to_string(1'728'000 + i) + ",a\n";
  ReplayOptions choice = options(directory_.write("paused.csv", paused));
  choice.log.files.push_back(directory_.write("other.csv", "time,key\n0,b\n86400,b\n1641600,b\n"));
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(number(outcome, "requests"), kMoreThanWait + 4);
}

// As many later ones as the reach says have not been passed on.
TEST_F(Replay, WhatIsOutOfPlaceByTheReachIsPutInOrder) {
  constexpr int kReach = static_cast<int>(TimeOrder::kReach);
  std::string csv = "time,key\n";
  for (int i = 1; i <= 2 * kReach; ++i) csv += std::to_string(i) + ",a\n";
  csv += std::to_string(kReach) + ".5,b\n";
  const Outcome outcome = run(options(directory_.write("in.csv", csv)));
  EXPECT_EQ(number(outcome, "requests"), 2 * kReach + 1);
  EXPECT_EQ(boost::json::parse(outcome.out).at("late_requests").as_int64(), 0);
}

// So many records wait that their keys would need too much memory: some are passed on before.
TEST_F(Replay, WhatIsFarOutOfPlaceAmongLongKeysComesTooLate) {
  const std::string key(std::size_t{1} << 16, 'k');
  std::string csv = "time,key\n";
  for (const int time : {11, 10, 12, 13, 14, 15, 16, 17, 18, 1, 2}) {
    csv += std::to_string(time) + ',' + key + '\n';
  }
  ReplayOptions choice = options(directory_.write("in.csv", csv));
  choice.log.key = "";
  for (int i = 0; i < 128; ++i) *choice.log.key += "{key}";  // 8 MiB of a record.
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(number(outcome, "requests"), 11);
  const auto report = boost::json::parse(outcome.out);
  EXPECT_EQ(report.at("late_requests").as_int64(), 2);
  EXPECT_EQ(report.at("most_late_ns").as_int64(), 13 * kSecondNs);
}

// A pause in one log puts none of its requests behind those of the other.
TEST_F(Replay, APauseOfAFileIsNoWrongTime) {
  constexpr int kDays = 20;
  ReplayOptions choice =
      options(directory_.write("a.csv", "time,key\n0,a\n1728000,a\n1728001,a\n"));
  std::string other = "time,key\n";
  for (int day = 0; day <= kDays; ++day) other += std::to_string(day * 86'400) + ",b\n";
  choice.log.files.push_back(directory_.write("b.csv", other));
  const std::string decisions = decisions_of(choice);
  EXPECT_LT(decisions.find(R"("time_ns":1641600000000000,"key":"b")"),
            decisions.find(R"("time_ns":1728000000000000,"key":"a")"));
  EXPECT_LT(decisions.find(R"("time_ns":1728000000000000,"key":"a")"),
            decisions.find(R"("time_ns":1728000000000000,"key":"b")"));
}

TEST_F(Replay, ReadsMoreFilesThanTheSoftLimitOfDescriptors) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  constexpr int kFiles = 200;
  ReplayOptions choice = options(directory_.write("0", "time,key\n0,a\n"));
  for (int i = 1; i < kFiles; ++i) {
    const std::string name = std::to_string(i);
    choice.log.files.push_back(directory_.write(name, "time,key\n" + name + ",a\n"));
  }
  const rlimit low{.rlim_cur = kFiles / 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const Outcome outcome = run(choice);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(number(outcome, "requests"), kFiles);
}

TEST_F(Replay, RequestsOfOneTimeStayInTheOrderOfTheFiles) {
  ReplayOptions choice = options(directory_.write("a.csv", "time,key\n1,first\n2,z\n1,second\n"));
  choice.log.files.push_back(directory_.write("b.csv", "time,key\n0,zero\n1,third\n"));
  const std::string decisions = decisions_of(choice);
  std::size_t at = 0;
  for (const std::string key : {"zero", "first", "second", "third"}) {
    at = decisions.find("\"key\":\"" + key + "\"", at);
    ASSERT_NE(at, std::string::npos) << key << " in " << decisions;
  }
}

TEST_F(Replay, CountsAndShowsUnreadableLines) {
  std::string csv = "time,key\n";
  for (int i = 0; i < 7; ++i) csv += "x,a\n\n1,a\n";
  const std::string file = directory_.write("in.csv", csv);
  const Outcome outcome = run(options(file));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(number(outcome, "requests"), 7);
  EXPECT_EQ(boost::json::parse(outcome.out).at("unreadable_lines").as_int64(), 7);
  std::string expected;
  for (const char* line : {"2", "5", "8", "11", "14"}) {
    expected += file + ":" + line + ": time \"x\" is not decimal seconds since the epoch\n";
  }
  EXPECT_EQ(outcome.err, expected + "(further lines that cannot be read are only counted)\n");
}

TEST_F(Replay, StrictStopsAtTheFirstUnreadableLine) {
  const std::string file = directory_.write("in.csv", "time,key\n1,a\n2\n3,a\n");
  ReplayOptions choice = options(file);
  choice.log.is_strict = true;
  choice.decisions = directory_.path("decisions");
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "sluice replay: " + file + ":3: 1 field where the header has 2\n");
  // The requests before it were decided.
  EXPECT_TRUE(directory_.read("decisions").starts_with(R"({"time_ns":1000000000,"key":"a")"));
  choice.log.files.insert(choice.log.files.begin(),
                          directory_.write("other.csv", "time,key\n2,b\n4,b\n"));
  EXPECT_EQ(run(choice).err, outcome.err) << "of several files the same";
}

TEST_F(Replay, WarnsOfALimitWhoseRateIsRounded) {
  ReplayOptions choice = options(directory_.write("in.csv", "time,key\n1,a\n"));
  choice.limits = {"token_bucket 700000000/1s"};
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(
      outcome.err,
      "sluice replay: 'token_bucket 700000000/1s' admits 500000000/1s: the time after which a "
      "unit returns is rounded up to 2ns\n");
}

TEST_F(Replay, AQuotedFieldMaySpanLines) {
  ReplayOptions choice =
      options(directory_.write("in.csv", "time,key\n1,\"a\nb\"\n2,\"open\n3,c\n4,\"d\r\ne\"\r\n"));
  choice.decisions = directory_.path("decisions");
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.err.ends_with(":4: the quote that opens field 2 is never closed\n"));
  const std::string decisions = directory_.read("decisions");
  for (const char* key : {R"("key":"a\u000ab")", R"("key":"c")", R"("key":"d\u000d\u000ae")"}) {
    EXPECT_NE(decisions.find(key), std::string::npos) << key;
  }
}

TEST_F(Replay, RecognisesTheFormatByTheFirstLineThatFits) {
  struct Row {
    std::string text;
    int requests;
    int unreadable;
  };
  for (const Row& row :
       {Row{"{\nnoise\n" + log_line("a", "10:00:00") + "more noise\n", 1, 3},
        Row{" \t{\"time\":1,\"key\":\"a\"}\n", 1, 0},
        // Blank lines are skipped.
        Row{" \n\ntime,key\n\t \n1,a\n  \n", 1, 0}, Row{"", 0, 0}, Row{"time,key\n", 0, 0}}) {
    SCOPED_TRACE(row.text);
    const Outcome outcome = run(options(directory_.write("log", row.text)));
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), row.unreadable);
    EXPECT_EQ(number(outcome, "requests"), row.requests);
    EXPECT_EQ(boost::json::parse(outcome.out).at("unreadable_lines").as_int64(), row.unreadable);
  }
}

TEST_F(Replay, AGivenFormatIsNotGuessed) {
  ReplayOptions choice = options(directory_.write("log", log_line("a", "10:00:00")));
  choice.log.format = Format::kJsonLines;
  EXPECT_EQ(run(choice).status, 1);
  choice.log.format = Format::kCsv;
  const Outcome csv = run(choice);
  EXPECT_EQ(csv.status, 1);
  EXPECT_NE(csv.err.find("the CSV header"), std::string::npos) << csv.err;
  choice.log.format = Format::kCommon;
  EXPECT_EQ(run(choice).status, 0);
}

TEST_F(Replay, InputWithoutOneReadableLineFails) {
  const Outcome outcome = run(options(directory_.write("noise", "a\nb\n")));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.err.ends_with("sluice replay: not one line of the input could be read\n"));
}

TEST_F(Replay, OfADamagedFileAmongOthersNoPartOfALineIsDecided) {
  constexpr std::int64_t kFirst = 1'432'025'131;
  constexpr int kRows = 1'000;
  std::string csv = "key,time\n";
  for (int i = 0; i < kRows; ++i) csv += "a," + std::to_string(kFirst + i) + "\n";
  const std::string packed = gzipped(csv);
  const std::string cut = directory_.write("cut.gz", packed.substr(0, packed.size() / 2));
  const std::string whole = directory_.write("whole.csv", csv);
  ReplayOptions choice = options(cut);
  choice.log.files.push_back(directory_.write("header.csv", "key,time\n"));
  choice.log.files.push_back(whole);
  choice.log.files.push_back(directory_.write("empty", ""));
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "sluice replay: " + cut + ": the gzip data ends too early\n");
  EXPECT_GT(number(outcome, "requests"), kRows);
  EXPECT_LT(number(outcome, "requests"), 2 * kRows);
  const auto report = boost::json::parse(outcome.out);
  EXPECT_EQ(report.at("first_ns").as_int64(), kFirst * 1'000'000'000);
  EXPECT_EQ(report.at("last_ns").as_int64(), (kFirst + kRows - 1) * 1'000'000'000);
}

TEST_F(Replay, MissingFilesAreFoundBeforeAnythingIsReplayed) {
  ReplayOptions choice = options(directory_.write("in.csv", "time,key\n1,a\n"));
  choice.log.files.push_back(directory_.path("missing"));
  choice.decisions = directory_.path("decisions");
  const Outcome outcome = run(choice);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err,
            "sluice replay: " + directory_.path("missing") + ": No such file or directory\n");
  EXPECT_FALSE(std::filesystem::exists(directory_.path("decisions")));
}

TEST_F(Replay, RejectsInvalidOptions) {
  const std::string file = directory_.write("in.csv", "time,user\n1,a\n");
  const auto refused = [&](const ReplayOptions& choice) {
    const Outcome outcome = run(choice);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  ReplayOptions choice = options(file);
  EXPECT_EQ(refused(choice), "sluice replay: " + file +
                                 ": key template \"{key}\": there is no field {key}; there are "
                                 "time, user\n");
  choice.log.key = "{user";
  EXPECT_NE(refused(choice).find("--key: "), std::string::npos);
  choice.log.key = "{user}";
  choice.limits.clear();
  EXPECT_NE(refused(choice).find("--limit"), std::string::npos);
  choice.limits = {"token_bucket 1/s", "token_bucket 1/1s"};
  EXPECT_NE(refused(choice).find("given twice"), std::string::npos);
  choice.limits = {"token_bucket"};
  EXPECT_NE(refused(choice).find("--limit: "), std::string::npos);
  choice = options(file);
  choice.log.key = "all";
  choice.store = "nowhere:";
  EXPECT_NE(refused(choice).find("--store: "), std::string::npos);
  choice = options(file);
  choice.log.format = Format::kCommon;
  choice.log.key = "{user_agent}";
  EXPECT_NE(refused(choice).find("there are ip, ident"), std::string::npos);
  choice = options(file);
  choice.log.key = "all";
  choice.decisions = file;
  EXPECT_NE(refused(choice).find("is also read"), std::string::npos);
  choice.html = std::exchange(choice.decisions, "");
  EXPECT_EQ(refused(choice),
            "sluice replay: --html: " + file + " is also read and would be lost\n");
  choice.html = directory_.path("report.html");
  for (std::size_t i = choice.limits.size(); i <= kMaxCharted; ++i) {
    choice.limits.push_back("fixed_window 5/" + std::to_string(i) + "s");
  }
  EXPECT_EQ(refused(choice), "sluice replay: --html: a page shows at most 8 limits\n");
  EXPECT_FALSE(std::filesystem::exists(choice.html));
}

TEST_F(Replay, WritesAPageThatIsTheSameTwice) {
  ReplayOptions choice = options(directory_.write("log", log_line("a", "10:00:00")));
  choice.html = directory_.path("report.html");
  const Outcome with_page = run(choice);
  EXPECT_EQ(with_page.status, 0) << with_page.err;
  const std::string page = directory_.read("report.html");
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_NE(page.find(R"("limit_expr":"token_bucket 1/1s burst=2")"), std::string::npos);
  run(choice);
  EXPECT_EQ(directory_.read("report.html"), page);
  choice.html.clear();
  EXPECT_EQ(run(choice).out, with_page.out);
}

// As "sluice replay - --decisions X < X", which would lose X.
TEST_F(Replay, StandardInputIsNotOverwritten) {
  const std::string file = directory_.write("in.csv", "time,key\n1,a\n");
  const int input = dup(STDIN_FILENO);
  const int opened = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  dup2(opened, STDIN_FILENO);
  close(opened);
  ReplayOptions choice = options("-");
  choice.decisions = file;
  const Outcome decisions = run(choice);
  choice.decisions.clear();
  choice.html = file;
  const Outcome html = run(choice);
  dup2(input, STDIN_FILENO);
  close(input);
  EXPECT_EQ(decisions.err,
            "sluice replay: --decisions: " + file + " is also read and would be lost\n");
  EXPECT_EQ(html.err, "sluice replay: --html: " + file + " is also read and would be lost\n");
  EXPECT_EQ(directory_.read("in.csv"), "time,key\n1,a\n");
}

// As "sluice replay ... --decisions /dev/stdout > X": the summary would lie over the decisions.
TEST_F(Replay, AFileThatIsStandardOutputIsWrittenAsADash) {
  ReplayOptions choice = options(directory_.write("log", log_line("a", "10:00:00")));
  const std::string file = directory_.write("out", "");
  std::fflush(stdout);
  const int output = dup(STDOUT_FILENO);
  const int opened = open(file.c_str(), O_WRONLY | O_CLOEXEC);
  dup2(opened, STDOUT_FILENO);
  close(opened);
  choice.decisions = "/dev/stdout";
  const Outcome device = run(choice);
  choice.decisions = file;
  const Outcome decisions = run(choice);
  choice.decisions = "-";
  choice.html = file;
  const Outcome html = run(choice);
  choice.html.clear();
  const Outcome dash = run(choice);
  std::fflush(stdout);
  dup2(output, STDOUT_FILENO);
  close(output);
  const std::string rest = " is also standard output, whose name is -\n";
  EXPECT_EQ(device.status, 2);
  EXPECT_EQ(device.err, "sluice replay: --decisions: /dev/stdout" + rest);
  EXPECT_EQ(decisions.err, "sluice replay: --decisions: " + file + rest);
  EXPECT_EQ(html.err, "sluice replay: --html: " + file + rest);
  EXPECT_EQ(dash.status, 0);
  EXPECT_TRUE(directory_.read("out").starts_with(R"({"time_ns":)"));
  choice.decisions = "/dev/null";
  EXPECT_EQ(run(choice).status, 0);
}

TEST_F(Replay, ThePageAndTheDecisionsMustBeTwoFilesUnderAnyNames) {
  ReplayOptions choice = options(directory_.write("log", log_line("a", "10:00:00")));
  choice.decisions = directory_.write("out", "kept");
  const auto expect_refused = [&](const std::string& html, const std::string& name) {
    choice.html = html;
    const Outcome outcome = run(choice);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.err, "sluice replay: --html: " + name + " is also for the decisions\n");
  };
  std::filesystem::create_symlink("out", directory_.path("link"));
  std::filesystem::create_hard_link(directory_.path("out"), directory_.path("hard"));
  for (const char* name : {"out", "./out", "link", "hard"}) {
    expect_refused(directory_.path(name), directory_.path(name));
  }
  EXPECT_EQ(directory_.read("out"), "kept");
  choice.html = directory_.path("page.html");
  EXPECT_EQ(run(choice).status, 0);
  // Files that are not there yet are not made by a call that is refused.
  choice.decisions = directory_.path("new");
  expect_refused(directory_.path("./new"), directory_.path("./new"));
  choice.html = directory_.path("no folder/page");
  EXPECT_EQ(run(choice).status, 1);
  EXPECT_FALSE(std::filesystem::exists(choice.decisions));
  // A link to a file that is not there yet.
  std::filesystem::create_symlink("target", directory_.path("early"));
  choice.decisions = directory_.path("early");
  expect_refused(directory_.path("target"), directory_.path("target"));
  choice.decisions = "-";
  expect_refused("-", "standard output");
}

TEST_F(Replay, ARefusedCallLeavesWhatAnotherProgramHasWritten) {
  const std::string path = directory_.path("new");
  const auto make = [&] { return open_output("--html", "the page", path, {}); };
  auto file = make();
  directory_.write("new", "of another");
  file.reset();
  EXPECT_EQ(directory_.read("new"), "of another");
  std::filesystem::remove(path);
  file = make();
  std::filesystem::rename(directory_.write("other", ""), path);
  file.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace sluice::replay
