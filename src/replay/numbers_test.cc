#include "replay/numbers.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace sluice::replay {
namespace {

Instant seconds(std::string_view text) {
  Instant time_ns = -1;
  std::string reason;
  return read_seconds(text, time_ns, reason) ? time_ns : -1;
}

std::string number_fault(std::string_view text) {
  Instant time_ns = 0;
  std::string reason;
  return read_seconds(text, time_ns, reason) ? "" : reason;
}

TEST(Numbers, ReadsDecimalSecondsExactly) {
  EXPECT_EQ(seconds("0"), 0);
  EXPECT_EQ(seconds("0.000000001"), 1);
  EXPECT_EQ(seconds("1.5"), 1'500'000'000);
  EXPECT_EQ(seconds("0001.050"), 1'050'000'000);
  // These two differ by less than the precision of a double.
  EXPECT_EQ(seconds("1431857103.123456789"), 1'431'857'103'123'456'789);
  EXPECT_EQ(seconds("1431857103.123456788"), 1'431'857'103'123'456'788);
}

TEST(Numbers, EndsBeforeTwoToThe62) {
  EXPECT_EQ(seconds("4611686018.427387903"), kEndOfTime - 1);
  EXPECT_EQ(
      number_fault("4611686018.427387904"),
      "time \"4611686018.427387904\" in seconds since the epoch is not before 2^62 ns (the year "
      "2116)");
  EXPECT_EQ(seconds("4611686019"), -1);
  EXPECT_EQ(seconds("99999999999999999999999999"), -1);
}

TEST(Numbers, RejectsTextThatIsNotDecimalSeconds) {
  for (const char* text : {"", ".", "1.", ".5", "-1", "+1", "1e3", " 1", "1 ", "1,5", "0x10",
                           "1.2.3", "inf", "nan", "1.-2", "१"}) {
    EXPECT_EQ(seconds(text), -1) << text;
  }
  EXPECT_EQ(number_fault("1.0000000000"), "time \"1.0000000000\" has more than 9 decimals");
  EXPECT_EQ(number_fault("\x1b[2J"), "time \"\\x1b[2J\" is not decimal seconds since the epoch");
}

TEST(Numbers, ReadsNanoseconds) {
  Instant time_ns = -1;
  std::string reason;
  EXPECT_TRUE(read_nanoseconds("4611686018427387903", time_ns, reason));
  EXPECT_EQ(time_ns, kEndOfTime - 1);
  EXPECT_FALSE(read_nanoseconds("4611686018427387904", time_ns, reason));
  EXPECT_FALSE(read_nanoseconds("1.0", time_ns, reason));
  EXPECT_EQ(reason, "time_ns \"1.0\" is not nanoseconds since the epoch");
}

TEST(Numbers, ReadsCosts) {
  std::int64_t cost = -1;
  std::string reason;
  EXPECT_TRUE(read_cost("0", cost, reason));
  EXPECT_EQ(cost, 0);
  EXPECT_TRUE(read_cost("9007199254740991", cost, reason));
  EXPECT_EQ(cost, kMaxCount);
  for (const char* text : {"9007199254740992", "99999999999999999999", "-1", "1.0", "", "one"}) {
    EXPECT_FALSE(read_cost(text, cost, reason)) << text;
  }
  EXPECT_EQ(reason, "cost \"one\" is not an integer from 0 to 2^53 - 1");
}

RC_GTEST_PROP(Numbers, AnyInstantSurvivesItsDecimalText, ()) {
  const auto time_ns = *rc::gen::inRange<Instant>(0, kEndOfTime);
  std::string decimals = std::to_string(time_ns % 1'000'000'000);
  decimals.insert(0, 9 - decimals.size(), '0');
  RC_ASSERT(seconds(std::to_string(time_ns / 1'000'000'000) + "." + decimals) == time_ns);
}

}  // namespace
}  // namespace sluice::replay
