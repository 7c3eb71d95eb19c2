#include "core/limit_syntax.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

#include "core/instant.h"

namespace sluice {
namespace {

std::int64_t duration(std::string_view text) {
  return parse_duration(text, 0, text.size());
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

}  // namespace
}  // namespace sluice
