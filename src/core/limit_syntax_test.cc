#include "core/limit_syntax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "core/instant.h"

namespace sluice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::int64_t duration(std::string_view text) {
  return parse_duration(text, 0, text.size());
}

// Calls `read` and expects InvalidLimit with the position of the first '^' below the text.
struct Refusal {
  std::string_view text;
  std::string_view place;
  std::string_view says;
};

void expect_refused(const Refusal& row, const std::function<void()>& read) {
  try {
    read();
    ADD_FAILURE() << "accepted: " << row.text;
  } catch (const InvalidLimit& error) {
    EXPECT_EQ(error.position(), row.place.find('^')) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(row.says));
    EXPECT_THAT(error.what(), EndsWith("at character " + std::to_string(error.position() + 1)));
  }
}

TEST(DurationTest, AddsUnitsUp) {
  struct Row {
    std::string_view text;
    std::int64_t duration_ns;
  };
  for (const Row& row :
       {Row{"1ns", 1}, Row{"1us", 1'000}, Row{"1ms", 1'000'000}, Row{"1s", 1'000'000'000},
        Row{"1m", 60'000'000'000}, Row{"1h", 3'600'000'000'000}, Row{"1d", 86'400'000'000'000},
        Row{"1w", 604'800'000'000'000}, Row{"1h30m", 5'400'000'000'000},
        Row{"30m1h", 5'400'000'000'000}, Row{"0h90m", 5'400'000'000'000},
        Row{"1s1s", 2'000'000'000}, Row{"s", 1'000'000'000}, Row{"007ms", 7'000'000},
        Row{"2305843009213693952ns", kMaxDurationNs}}) {
    EXPECT_EQ(duration(row.text), row.duration_ns) << row.text;
  }
}

TEST(DurationTest, PointsAtTheError) {
  for (const Refusal& row : {
           Refusal{"", "^", "missing"},
           Refusal{"1 s", " ^", "unit"},
           Refusal{"-1s", "^", "unit"},
           Refusal{"1.5s", " ^", "unit"},
           Refusal{"1h.m", "  ^", "unit"},
           Refusal{"sm", "^", "unit"},
           Refusal{"0h0m", "^", "at least 1ns"},
           Refusal{"1h99999999999999999999s", "  ^", "99999999999999999999"},
           Refusal{"3813w", "^", "73 years"},
       }) {
    expect_refused(row, [&] { duration(row.text); });
  }
}

TEST(DurationTest, WritesTheLargestUnitsFirst) {
  EXPECT_EQ(format_duration(1), "1ns");
  EXPECT_EQ(format_duration(5'400'000'000'000), "1h30m");
  EXPECT_EQ(format_duration(604'800'000'000'000), "1w");
  EXPECT_EQ(format_duration(1'001'001'001), "1s1ms1us1ns");
}

RC_GTEST_PROP(DurationTest, ReadsWhatItWrites, ()) {
  const int bits = *rc::gen::inRange(0, 62);
  const auto below = static_cast<std::uint64_t>(*rc::gen::arbitrary<std::uint32_t>()) << 32 |
                     *rc::gen::arbitrary<std::uint32_t>();
  const std::int64_t high = std::int64_t{1} << bits;
  const auto low = static_cast<std::int64_t>(below % static_cast<std::uint64_t>(high));
  const std::int64_t duration_ns = std::min(high + low, kMaxDurationNs);
  RC_ASSERT(duration(format_duration(duration_ns)) == duration_ns);
}

TEST(LimitSyntaxTest, PointsAtTheError) {
  const std::string long_text(kMaxExpressionBytes + 1, 'a');
  const std::string long_place = std::string(kMaxExpressionBytes, ' ') + '^';
  for (const Refusal& row : {
           Refusal{"a 5 /1s", "    ^", "name=value"},
           Refusal{"a 5/ 1s", "    ^", "duration"},
           Refusal{"a 5/1min", "     ^", "the unit 'min' is unknown; the units of time are ns"},
           Refusal{"5/1m", "^", "algorithm's name is missing"},
           Refusal{"a 5/1m & 5/1m", "         ^", "algorithm's name is missing"},
           Refusal{"a 5/1s/2s", "      ^", "unit"},
           Refusal{"a 5/s1m", "    ^", "a number is missing"},
           Refusal{"a 5/1s b & c 5/1s d=1", "       ^", "name=value"},
           Refusal{"a 5/1s,b 5/1s", "      ^", "unit"},
           Refusal{long_text, long_place, "1024"},
       }) {
    expect_refused(row, [&] { parse_limit_syntax(row.text); });
  }
}

TEST(LimitSyntaxTest, TheMessageIsOneLine) {
  try {
    parse_limit_syntax("a\n5\x1b[2J").at(0).count();
    FAIL() << "accepted";
  } catch (const InvalidLimit& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    EXPECT_THAT(error.what(), Not(HasSubstr("\x1b")));
  }
}

TEST(LimitSyntaxTest, RefusesUnknownOptions) {
  const Refusal none{"a 1/s b=1", "      ^", "a has no option 'b', nor any other"};
  expect_refused(none, [&] { parse_limit_syntax(none.text).at(0).finish(); });
  const Refusal near{"a 1/s brust=1", "      ^", "no option 'brust' (did you mean 'burst'?); it"};
  expect_refused(near, [&] {
    auto parts = parse_limit_syntax(near.text);
    parts[0].count_option("burst");
    parts[0].finish();
  });
  const Refusal other{"a 1/s c=1 b=1", "          ^", "a has no option 'b'; it has c d"};
  expect_refused(other, [&] {
    auto parts = parse_limit_syntax(other.text);
    parts[0].count_option("c");
    parts[0].count_option("d");
    parts[0].finish();
  });
}

TEST(LimitSyntaxTest, ANumberHasDigitsOnly) {
  for (const Refusal& row :
       {Refusal{"a 1/s q=-0", "        ^", "'-0' is not a whole number from 0"},
        Refusal{"a 1/s q=+1", "        ^", "whole number"},
        Refusal{"a 1/s q=1.", "        ^", "whole number"}}) {
    expect_refused(row, [&] { parse_limit_syntax(row.text).at(0).count_option("q", 0); });
  }
}

TEST(LimitSyntaxTest, TheMessageIsBounded) {
  try {
    parse_limit_syntax(std::string(1'000'000, 'a'));
    ADD_FAILURE() << "accepted";
  } catch (const InvalidLimit& error) {
    EXPECT_LT(std::string_view(error.what()).size(), kMaxExpressionBytes + 200);
  }
}

}  // namespace
}  // namespace sluice
