#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "testing/read_line.h"

namespace sluice::replay {
namespace {

std::unique_ptr<LineReader> reader_for(std::string_view header) {
  std::string reason;
  auto reader = make_csv_reader(header, reason);
  EXPECT_NE(reader, nullptr) << reason;
  return reader;
}

std::string fault(std::string_view header, std::string_view line) {
  return read_line(*reader_for(header), line).reason;
}

TEST(CsvReader, ReadsTimeKeyAndCost) {
  const auto reader = reader_for("time,key,cost");
  const ReadLine read = read_line(*reader, "1431857103.000000001,alice,3", {"key"});
  ASSERT_EQ(read.reading, Reading::kRecord) << read.reason;
  EXPECT_EQ(read.record.time_ns, 1'431'857'103'000'000'001);
  EXPECT_EQ(read.record.cost, 3);
  EXPECT_EQ(read.fields[0], "alice");
  EXPECT_EQ(reader->default_key(), "{key}");
}

TEST(CsvReader, TheCostIsOptional) {
  EXPECT_EQ(read_line(*reader_for("time,key,cost"), "1,a,").record.cost, 1);
  EXPECT_EQ(read_line(*reader_for("time,key,cost"), "1,a").record.cost, 1);
  EXPECT_EQ(read_line(*reader_for("time,key"), "1,a").record.cost, 1);
  EXPECT_EQ(read_line(*reader_for("time,key,cost"), "1,a,0").record.cost, 0);
  EXPECT_EQ(fault("time,cost,key", "1,a"), "2 fields where the header has 3");
}

TEST(CsvReader, ColumnsMayBeInAnyOrder) {
  const auto reader = reader_for("user,\"time\",path");
  EXPECT_EQ(read_line(*reader, "bob,2.5,/x", {"path", "user"}).fields,
            (std::vector<std::string>{"/x", "bob"}));
  EXPECT_FALSE(reader->slot("key").has_value());
  EXPECT_EQ(reader->names(), (std::vector<std::string_view>{"user", "time", "path"}));
}

TEST(CsvReader, UnquotesFields) {
  const auto reader = reader_for("time,key,x");
  const auto key = [&](std::string_view line) {
    const ReadLine read = read_line(*reader, line, {"key"});
    return read.reading == Reading::kRecord ? read.fields[0] : "refused: " + read.reason;
  };
  EXPECT_EQ(key("1,\"a,b\",x"), "a,b");
  EXPECT_EQ(key("1,\"say \"\"hi\"\"\",\"\"\"\""), "say \"hi\"");
  EXPECT_EQ(key("1,\"\",x"), "");
  EXPECT_EQ(key("1,,x"), "");
  EXPECT_EQ(key("1,\"a\nb\",x"), "a\nb");
  EXPECT_EQ(key("1, a ,x"), " a ");
}

TEST(CsvReader, SaysWhatIsWrong) {
  EXPECT_EQ(fault("time,key", "1"), "1 field where the header has 2");
  EXPECT_EQ(fault("time,key", "1,a,b"), "3 fields where the header has 2");
  EXPECT_EQ(fault("time,key", "1,a\"b"), "a quote inside field 2, which does not start with one");
  EXPECT_EQ(fault("time,key", "1,\"a\"b"), "text after the closing quote of field 2");
  EXPECT_EQ(fault("time,key", "x,a"), "time \"x\" is not decimal seconds since the epoch");
  EXPECT_EQ(fault("time,cost", "1,-1"), "cost \"-1\" is not an integer from 0 to 2^53 - 1");
  EXPECT_EQ(fault("time,key", std::string(2000, ',')), "more than 1024 fields");
}

TEST(CsvReader, SaysThatAQuoteIsStillOpen) {
  const auto reader = reader_for("time,key");
  for (const char* line : {"1,\"a", "1,\"", "1,\"a\"\"", "1,\"a\"\"b"}) {
    EXPECT_EQ(read_line(*reader, line).reading, Reading::kOpenQuote) << line;
  }
}

TEST(CsvReader, AHeaderNeedsATime) {
  std::string reason;
  EXPECT_EQ(make_csv_reader("when,key", reason), nullptr);
  EXPECT_EQ(reason, "the CSV header \"when,key\" has no column time");
  EXPECT_EQ(make_csv_reader("\"time", reason), nullptr);
  EXPECT_EQ(reason, "the CSV header: the quote that opens field 1 is never closed");
}

RC_GTEST_PROP(CsvReader, AnyKeySurvivesQuoting, (const std::string& key)) {
  std::string quoted;
  for (const char c : key) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  const auto reader = reader_for("key,time");
  const ReadLine read = read_line(*reader, "\"" + quoted + "\",1", {"key"});
  RC_ASSERT(read.reading == Reading::kRecord);
  RC_ASSERT(read.fields[0] == key);
}

}  // namespace
}  // namespace sluice::replay
