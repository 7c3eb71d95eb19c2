#include "protocols/resp/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace sluice::resp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Texts = std::vector<std::string>;

// The result of parsing: the arguments of each command, and the error that ends it.
struct Reading {
  std::vector<Texts> commands;
  std::string error;
  std::size_t unread = 0;

  friend bool operator==(const Reading&, const Reading&) = default;
};

// Feeds the bytes up to each of `stops` and then all, each time from new memory, as a connection
// whose buffer moves.
Reading read_in_pieces(std::string_view bytes, std::vector<std::size_t> stops) {
  Parser parser;
  Reading reading;
  std::size_t consumed = 0;
  stops.push_back(bytes.size());
  for (const std::size_t stop : stops) {
    const std::string arrived(bytes.substr(consumed, stop - consumed));
    std::size_t at = 0;
    auto result = Parser::Result::kCommand;
    while (reading.error.empty()) {
      result = parser.next(std::string_view(arrived).substr(at));
      if (result != Parser::Result::kCommand) break;
      at += parser.consumed();
      const auto arguments = parser.arguments();
      if (!arguments.empty()) reading.commands.emplace_back(arguments.begin(), arguments.end());
    }
    if (result == Parser::Result::kError) reading.error = parser.error();
    consumed += at;
  }
  reading.unread = bytes.size() - consumed;
  return reading;
}

// Reads all bytes at once, in any two pieces, and byte by byte: all results must agree.
Reading read(std::string_view bytes) {
  const Reading whole = read_in_pieces(bytes, {});
  std::vector<std::size_t> every;
  const std::size_t step = bytes.size() > 1000 ? 997 : 1;
  for (std::size_t split = 0; split < bytes.size(); split += step) {
    EXPECT_EQ(read_in_pieces(bytes, {split}), whole) << "parted at " << split;
    every.push_back(split);
  }
  EXPECT_EQ(read_in_pieces(bytes, every), whole);
  return whole;
}

std::string error_of(std::string_view bytes) {
  const std::string error = read(bytes).error;
  constexpr std::string_view kPrefix = "ERR Protocol error: ";
  EXPECT_TRUE(error.empty() || error.starts_with(kPrefix)) << error;
  return error.empty() ? "none" : error.substr(kPrefix.size());
}

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

TEST(Parser, ReadsCommandsInAnyPieces) {
  struct Row {
    const char* bytes;
    std::vector<Texts> commands;
  };
  for (const Row& row :
       {Row{"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n*1\r\n$4\r\nPING\r\n",
            {{"ECHO", "a\r\n"}, {"PING"}}},
        {"\r\n\n*0\r\n*-1\r\n  \t\r\n*-7\r\nPING\r\n", {{"PING"}}},
        {"PING\r\n  ECHO\t a \nSET a  b\r\n", {{"PING"}, {"ECHO", "a"}, {"SET", "a", "b"}}},
        {R"(E "a\x41\x4g\n\t\r\a\b\\\"\q" 'a\'b\n' "" '' x"y z")"
         "\n",
         {{"E", "aAx4g\n\t\r\a\b\\\"q", "a'b\\n", "", "", "xy z"}}},
        // As Redis does, it does not look at what ends a line or a bulk.
        {"*1\rx$4\r\nPINGxxPING\r\n", {{"PING"}, {"PING"}}}}) {
    SCOPED_TRACE(row.bytes);
    const Reading reading = read(row.bytes);
    EXPECT_EQ(reading.commands, row.commands);
    EXPECT_EQ(reading.unread, 0);
  }
}

TEST(Parser, WaitsForTheRest) {
  const std::string bytes = "*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n";
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto reading = read(std::string_view(bytes).substr(0, size));
    EXPECT_THAT(reading.commands, IsEmpty());
    EXPECT_EQ(reading.error, "");
    EXPECT_EQ(reading.unread, size);
  }
}

TEST(Parser, KeepsQuotedArgumentsUntilTheyAreReleased) {
  Parser parser;
  const std::string line = "ECHO '" + std::string(60'000, 'x') + "'\n";
  ASSERT_EQ(parser.next(line), Parser::Result::kCommand);
  const std::string_view first = parser.arguments()[1];
  ASSERT_EQ(parser.next("ECHO 'a'\n"), Parser::Result::kCommand);
  EXPECT_EQ(first, std::string(60'000, 'x'));
  EXPECT_THAT(parser.arguments(), ElementsAre("ECHO", "a"));
  parser.release();
  ASSERT_EQ(parser.next("ECHO 'b'\n"), Parser::Result::kCommand);
  EXPECT_THAT(parser.arguments(), ElementsAre("ECHO", "b"));
}

TEST(Parser, BoundsTheNumberOfArguments) {
  std::string most = "*64\r\n";
  std::string line;
  for (int i = 0; i < 64; ++i) {
    most += "$1\r\na\r\n";
    line += "a ";
  }
  EXPECT_EQ(read(most).commands.at(0).size(), kMaxArguments);
  EXPECT_EQ(read(line + "\n").commands.at(0).size(), kMaxArguments);
  EXPECT_EQ(error_of("*65\r\n"), "too many arguments, at most 64");
  EXPECT_EQ(error_of("*2147483647\r\n"), "too many arguments, at most 64");
  EXPECT_EQ(error_of(line + "a\n"), "too many arguments, at most 64");
  EXPECT_EQ(error_of(line + "'a'\n"), "too many arguments, at most 64");
}

TEST(Parser, BoundsTheBytesOfACommand) {
  const std::string head = "*2\r\n$4\r\nECHO\r\n";
  const std::string most(kMaxCommandBytes - head.size() - std::string("$65500\r\n\r\n").size(),
                         'x');
  EXPECT_EQ(read(head + bulk(most)).commands.at(0).at(1), most);
  EXPECT_EQ(error_of(head + bulk(most + "x")), "too big command, at most 65536 bytes");
  EXPECT_EQ(error_of(head + bulk(std::string(kMaxCommandBytes + 1, 'x'))),
            "too big command, at most 65536 bytes");
  EXPECT_EQ(error_of(head + "$536870912\r\n"), "too big command, at most 65536 bytes");

  const std::string line(kMaxCommandBytes - 1, 'x');
  EXPECT_EQ(read(line + "\n").commands.at(0).at(0), line);
  EXPECT_EQ(error_of(line + "x\n"), "too big inline request");
}

TEST(Parser, BoundsTheLengthOfANumber) {
  const std::string digits(kMaxCommandBytes, '1');
  EXPECT_EQ(error_of("*" + digits), "too big mbulk count string");
  EXPECT_EQ(error_of("*1\r\n$" + digits + "\r\n"), "too big bulk count string");
  EXPECT_EQ(error_of("*" + digits.substr(0, 1000) + "\r\n"), "invalid multibulk length");

  // A valid header just before a command's bound.
  const std::string full(kMaxCommandBytes - std::string("*2\r\n$65500\r\n\r\n$1").size(), 'x');
  EXPECT_EQ(error_of("*2\r\n" + bulk(full) + "$1\r\na\r\n"),
            "too big command, at most 65536 bytes");
}

}  // namespace
}  // namespace sluice::resp
