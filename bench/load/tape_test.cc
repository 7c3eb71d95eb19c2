#include "load/tape.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <string_view>

namespace sluice::bench {
namespace {

TEST(Tape, RendersEachKeyOnceInOrder) {
  const LoadOptions options{.command = Command::kThrottle,
                            .limit = {.burst = 15, .count = 30, .period_s = 60},
                            .keys = 3,
                            .order = Order::kInOrder};
  Tape tape(options);
  const auto request = [](const std::string& key) {
    return "*5\r\n$11\r\nCL.THROTTLE\r\n$5\r\n" + key + "\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n";
  };
  Tape::Slice slice = tape.next(2);
  EXPECT_EQ(slice.requests, 2u);
  EXPECT_EQ(slice.bytes, request("key:0") + request("key:1"));
  slice = tape.next(2);
  EXPECT_EQ(slice.requests, 1u);
  EXPECT_EQ(slice.bytes, request("key:2"));
  EXPECT_EQ(tape.next(1).bytes, request("key:0"));
}

TEST(Tape, RendersAScriptCallWithAndWithoutTheTime) {
  const std::string sha(40, 'a');
  LoadOptions options{.command = Command::kEvalsha,
                      .sha = sha,
                      .limit = {.burst = 1, .count = 2, .period_s = 3},
                      .now_us = 1234,
                      .keys = 1};
  const std::string call = "\r\n$7\r\nEVALSHA\r\n$40\r\n" + sha +
                           "\r\n$1\r\n1\r\n$5\r\nkey:0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n";
  Tape server_clock(options);
  EXPECT_EQ(server_clock.next(1).bytes, "*7" + call);
  options.caller_clock = true;
  Tape caller_clock(options);
  EXPECT_EQ(caller_clock.next(1).bytes, "*8" + call + "$4\r\n1234\r\n");
}

TEST(Tape, HoldsAFullPipelineOfPings) {
  Tape tape(LoadOptions{.command = Command::kPing, .pipeline = kMostPipelined});
  const Tape::Slice slice = tape.next(kMostPipelined);
  EXPECT_EQ(slice.requests, kMostPipelined);
  EXPECT_EQ(slice.bytes.substr(0, 14), "*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(slice.bytes.size(), 14 * kMostPipelined);
}

TEST(Tape, DrawsRandomKeysBelowTheirNumber) {
  Tape tape(LoadOptions{.command = Command::kThrottle, .keys = 10});
  std::array<int, 10> drawn{};
  for (std::size_t i = 0; i < tape.size(); ++i) {
    const std::string_view bytes = tape.next(1).bytes;
    const std::size_t at = bytes.find("key:");
    ASSERT_NE(at, std::string_view::npos);
    ++drawn[static_cast<std::size_t>(bytes[at + 4] - '0')];
  }
  for (const int times : drawn) EXPECT_GT(times, 0);
}

TEST(Tape, RendersACheckOfTheSameLimit) {
  Tape tape(LoadOptions{
      .command = Command::kCheck, .limit = {.burst = 15, .count = 30, .period_s = 60}, .keys = 1});
  EXPECT_EQ(tape.next(1).bytes,
            "*3\r\n$12\r\nSLUICE.CHECK\r\n$28\r\ntoken_bucket 30/60s burst=16\r\n"
            "$5\r\nkey:0\r\n");
}

TEST(Tape, GivesEveryOtherKeyTheOtherNumbers) {
  Tape tape(LoadOptions{.command = Command::kThrottle,
                        .limit = {.burst = 1},
                        .other_limit = LimitNumbers{.burst = 2},
                        .keys = 4,
                        .order = Order::kInOrder});
  for (const char* burst : {"1", "2", "1", "2"}) {
    EXPECT_NE(tape.next(1).bytes.find(std::string("\r\n$1\r\n") + burst + "\r\n$1\r\n1\r\n"),
              std::string_view::npos);
  }
}

// Passes through the whole tape several times.
TEST(Tape, NeverRepeatsANewKeyOrLimit) {
  for (const Command command : {Command::kThrottle, Command::kNewLimit}) {
    Tape tape(LoadOptions{.command = command, .keys = 1, .order = Order::kNew});
    std::set<std::string> seen;
    for (std::size_t i = 0; i < 3 * tape.size(); ++i) {
      ASSERT_TRUE(seen.emplace(tape.next(1).bytes).second);
    }
  }
}

TEST(Tape, DrawsByZipfsLawAndATenthIsNew) {
  Tape tape(LoadOptions{.command = Command::kThrottle, .keys = 100'000, .order = Order::kZipf});
  std::size_t first = 0;
  std::size_t fresh = 0;
  for (std::size_t i = 0; i < tape.size(); ++i) {
    const std::string_view bytes = tape.next(1).bytes;
    first += bytes.find("\r\nkey:0\r\n") != std::string_view::npos ? 1 : 0;
    fresh += bytes.find("\r\nnew:1") != std::string_view::npos ? 1 : 0;
  }
  const auto count = static_cast<double>(tape.size());
  EXPECT_NEAR(static_cast<double>(fresh), 0.1 * count, 0.01 * count);
  // ln 2 / ln 100,000 of nine tenths.
  EXPECT_NEAR(static_cast<double>(first), 0.054 * count, 0.01 * count);
}

}  // namespace
}  // namespace sluice::bench
