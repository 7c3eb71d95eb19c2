#include "load/reply_checker.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::bench {
namespace {

constexpr LimitNumbers kLimit{.burst = 15, .count = 30, .period_s = 60};

LoadOptions expecting(Reply reply) {
  return {.reply = reply, .limit = kLimit};
}

std::string five(const std::string& text, const char* head = "*5\r\n:") {
  std::string reply = head;
  for (const char c : text) reply += c == ' ' ? std::string("\r\n:") : std::string(1, c);
  return reply + "\r\n";
}

TEST(ReplyChecker, ReadsAllWholeRepliesAndLeavesTheRest) {
  ReplyChecker checker(expecting(Reply::kFive));
  const std::string first = five("0 16 15 -1 2");
  const std::string second = five("1 16 0 2 32");
  const std::string cut_off = first.substr(0, 7);
  const ReplyChecker::Progress progress = checker.check(first + second + first + cut_off);
  EXPECT_EQ(progress.replies, 3u);
  EXPECT_EQ(progress.bytes, 2 * first.size() + second.size());
  EXPECT_EQ(progress.error, nullptr);
}

TEST(ReplyChecker, WaitsForTheRestOfAReplyCutOffAnywhere) {
  const std::string reply = five("1 16 0 2 32");
  for (std::size_t bytes = 0; bytes < reply.size(); ++bytes) {
    ReplyChecker checker(expecting(Reply::kFive));
    const ReplyChecker::Progress progress = checker.check(reply.substr(0, bytes));
    EXPECT_EQ(progress.replies, 0u) << bytes;
    EXPECT_EQ(progress.error, nullptr) << bytes;
  }
}

TEST(ReplyChecker, RefusesNumbersThatCannotBeTheAnswer) {
  for (const char* numbers :
       {"2 16 15 -1 2", "0 15 15 -1 2", "0 16 16 -1 2", "0 16 -1 -1 2", "0 16 15 0 2",
        "1 16 1 2 32", "1 16 0 0 32", "1 16 0 33 32", "0 16 15 -1 0", "0 16 15 -1 34"}) {
    ReplyChecker checker(expecting(Reply::kFive));
    const std::string right = five("0 16 15 -1 2");
    const ReplyChecker::Progress progress = checker.check(right + five(numbers));
    EXPECT_EQ(progress.replies, 1u) << numbers;
    EXPECT_EQ(progress.bytes, right.size()) << numbers;
    EXPECT_NE(progress.error, nullptr) << numbers;
  }
}

TEST(ReplyChecker, RefusesOtherShapes) {
  for (const char* reply :
       {"-ERR no\r\n", "*4\r\n:0\r\n", "*5\r\n$1\r\n0\r\n", "*5\r\n:\r\n", "*5\r\n:1x\r\n",
        "*5\r\n:0\r:", "*5\r\n:1234567890123456789\r\n", "+PONG\r\n"}) {
    ReplyChecker checker(expecting(Reply::kFive));
    EXPECT_NE(checker.check(reply).error, nullptr) << reply;
  }
}

TEST(ReplyChecker, ChecksTheSixNumbersOfACheck) {
  const auto six = [](const char* numbers) { return five(numbers, "*6\r\n:"); };
  ReplyChecker checker(expecting(Reply::kSix));
  EXPECT_EQ(checker.check(six("1 16 15 0 2000 0") + six("0 16 0 2000 32000 0")).replies, 2u);
  for (const char* numbers :
       {"2 16 15 0 2000 0", "1 17 15 0 2000 0", "1 16 16 0 2000 0", "1 16 15 -1 2000 0",
        "0 16 1 2000 32000 0", "1 16 15 0 34000 0", "1 16 15 0 2000 1"}) {
    EXPECT_NE(checker.check(six(numbers)).error, nullptr) << numbers;
  }
  EXPECT_NE(checker.check(five("0 16 15 -1 2")).error, nullptr);
}

TEST(ReplyChecker, AllowsTheNumbersOfBothLimits) {
  LoadOptions options = expecting(Reply::kFive);
  options.other_limit = LimitNumbers{.burst = 30, .count = 30, .period_s = 60};
  ReplyChecker checker(options);
  EXPECT_EQ(checker.check(five("0 16 15 -1 2") + five("0 31 30 -1 2")).replies, 2u);
  EXPECT_NE(checker.check(five("0 32 31 -1 2")).error, nullptr);
}

TEST(ReplyChecker, ReadsPongs) {
  ReplyChecker checker(expecting(Reply::kPong));
  EXPECT_EQ(checker.check("+PONG\r\n+PONG\r\n+PO").replies, 2u);
  EXPECT_EQ(checker.check("+PO").error, nullptr);
  EXPECT_NE(checker.check("+PONG\r\n+POND\r\n").error, nullptr);
}

}  // namespace
}  // namespace sluice::bench
