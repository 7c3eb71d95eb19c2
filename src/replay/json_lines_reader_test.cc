#include <gtest/gtest.h>

#include <string>

#include "testing/read_line.h"

namespace sluice::replay {
namespace {

ReadLine read(std::string_view line, const std::vector<std::string_view>& names = {}) {
  const auto reader = make_json_lines_reader();
  return read_line(*reader, line, names);
}

TEST(JsonLinesReader, ReadsTimesExactly) {
  EXPECT_EQ(read(R"({"time":1431857103.123456789})").record.time_ns, 1'431'857'103'123'456'789);
  EXPECT_EQ(read(R"({"time":"1431857103.5"})").record.time_ns, 1'431'857'103'500'000'000);
  EXPECT_EQ(read(R"({"time_ns":1431857103123456789})").record.time_ns, 1'431'857'103'123'456'789);
  EXPECT_EQ(read(R"({"time":1,"time_ns":2})").record.time_ns, 2);
  EXPECT_EQ(read(R"( {"time" : 0 } )").reading, Reading::kRecord);
}

TEST(JsonLinesReader, ReadsOnlyTopLevelFields) {
  const ReadLine line = read(
      R"({"key":"a\u00e9\n\"","cost":7,"in":{"key":"no","time":9},"list":[{"key":1}],"time":1,)"
      R"("n":1.50,"t":true,"z":null})",
      {"key", "n", "t", "z", "cost"});
  ASSERT_EQ(line.reading, Reading::kRecord) << line.reason;
  EXPECT_EQ(line.record.time_ns, 1'000'000'000);
  EXPECT_EQ(line.record.cost, 7);
  EXPECT_EQ(line.fields, (std::vector<std::string>{"aé\n\"", "1.50", "true", "null", "7"}));
}

TEST(JsonLinesReader, TheLastFieldOfANameCounts) {
  EXPECT_EQ(read(R"({"time":1,"key":"a","key":"b"})", {"key"}).fields[0], "b");
}

TEST(JsonLinesReader, ForgetsThePreviousLine) {
  const auto reader = make_json_lines_reader();
  EXPECT_EQ(read_line(*reader, R"({"time":1,"key":"a","cost":5})", {"key"}).record.cost, 5);
  EXPECT_EQ(read_line(*reader, R"({"time":1,"ke)").reading, Reading::kUnreadable);
  EXPECT_EQ(read_line(*reader, R"({"time":1})", {"key"}).reason, "no field key");
  EXPECT_EQ(read_line(*reader, R"({"time":1,"key":"b"})", {"key"}).record.cost, 1);
  EXPECT_EQ(read_line(*reader, "[1]").reason, "not a JSON object");
}

TEST(JsonLinesReader, AcceptsBytesThatAreNotUtf8) {
  EXPECT_EQ(read("{\"time\":1,\"key\":\"a\xff\"}", {"key"}).fields[0], "a\xff");
}

TEST(JsonLinesReader, SaysWhatIsWrong) {
  EXPECT_EQ(read("{}").reason, "no field time or time_ns");
  EXPECT_EQ(read(R"({"time":null})").reason, "the field time or time_ns is not a number");
  EXPECT_EQ(read(R"({"time":[1]})").reason, "the field time or time_ns is not a number");
  EXPECT_EQ(read(R"({"time":1e9})").reason, "time \"1e9\" is not decimal seconds since the epoch");
  EXPECT_EQ(read(R"({"time":-1})").reason, "time \"-1\" is not decimal seconds since the epoch");
  EXPECT_EQ(read(R"({"time":1,"cost":"x"})").reason, "the field cost is not a number");
  EXPECT_EQ(read(R"({"time":1,"cost":1.5})").reason,
            "cost \"1.5\" is not an integer from 0 to 2^53 - 1");
  EXPECT_EQ(read(R"({"time":1,"key":{}})", {"key"}).reason,
            "the field key is an object or an array");
  EXPECT_EQ(read("7").reason, "not a JSON object");
}

TEST(JsonLinesReader, RejectsEveryTruncationOfALine) {
  constexpr std::string_view kLine = R"({"time":1.5,"key":"aé","cost":12,"x":[1,{"y":null}]})";
  EXPECT_EQ(read(kLine).reading, Reading::kRecord);
  for (std::size_t size = 0; size < kLine.size(); ++size) {
    EXPECT_EQ(read(kLine.substr(0, size)).reading, Reading::kUnreadable) << size;
  }
  EXPECT_EQ(read(std::string(kLine) + "}").reading, Reading::kUnreadable);
  EXPECT_EQ(read(std::string(100'000, '[')).reading, Reading::kUnreadable);
}

}  // namespace
}  // namespace sluice::replay
