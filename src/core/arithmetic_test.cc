#include "core/arithmetic.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kMinInt64 = std::numeric_limits<std::int64_t>::min();

// 0, 1, the largest number, and each power of two with its neighbours.
std::vector<std::int64_t> corners() {
  std::vector<std::int64_t> values{0, 1, kMaxInt64, kMaxInt64 - 1, 1'000'000'000, 60'000'000'000};
  for (int bit = 1; bit < 63; ++bit) {
    const std::int64_t power = std::int64_t{1} << bit;
    values.insert(values.end(), {power - 1, power, power + 1});
  }
  return values;
}

// A number of random magnitude, often a corner case.
rc::Gen<std::int64_t> hostile() {
  const auto shifted = rc::gen::map(
      rc::gen::pair(rc::gen::arbitrary<std::uint64_t>(), rc::gen::inRange(1, 64)),
      [](const auto& pair) { return static_cast<std::int64_t>(pair.first >> pair.second); });
  return rc::gen::oneOf(shifted, rc::gen::elementOf(corners()));
}

std::int64_t divide_widely(std::int64_t dividend, std::int64_t divisor) {
  return static_cast<std::int64_t>(Int128{dividend} / divisor);
}

TEST(DividerTest, IsExactOnEveryPairOfCorners) {
  for (const std::int64_t divisor : corners()) {
    if (divisor == 0) continue;
    const Divider divider(divisor);
    ASSERT_EQ(divider.divisor(), divisor);
    for (const std::int64_t dividend : corners()) {
      ASSERT_EQ(divider.divide(dividend), divide_widely(dividend, divisor))
          << dividend << " / " << divisor;
    }
  }
}

TEST(DividerTest, DefaultDividesByOne) {
  EXPECT_EQ(Divider(), Divider(1));
  EXPECT_EQ(Divider().divide(0), 0);
  EXPECT_EQ(Divider().divide(kMaxInt64), kMaxInt64);
}

RC_GTEST_PROP(DividerTest, IsExactAroundMultiplesOfTheDivisor, ()) {
  const std::int64_t divisor = std::max<std::int64_t>(1, *hostile());
  const std::int64_t multiple = *hostile() / divisor * divisor;
  const Divider divider(divisor);
  RC_ASSERT(divider.divide(multiple) == multiple / divisor);
  if (multiple > 0) RC_ASSERT(divider.divide(multiple - 1) == multiple / divisor - 1);
  if (multiple < kMaxInt64) {
    RC_ASSERT(divider.divide(multiple + 1) == divide_widely(multiple + 1, divisor));
  }
}

RC_GTEST_PROP(CheckedTest, MultipliesAndAdvancesAsWideNumbersDo, ()) {
  const auto sign = [] { return *rc::gen::element<std::int64_t>(1, -1); };
  const std::int64_t base = *hostile() * sign();
  const std::int64_t units = *hostile() * sign();
  const std::int64_t each = *hostile() * sign();
  const auto fits = [](Int128 value) { return value >= kMinInt64 && value <= kMaxInt64; };

  const Int128 product = Int128{units} * each;
  const auto multiplied = checked_multiply(units, each);
  RC_ASSERT(multiplied.has_value() == fits(product));
  if (multiplied) RC_ASSERT(*multiplied == static_cast<std::int64_t>(product));

  std::int64_t sum = 0;
  const bool advanced = advance(base, units, each, sum);
  RC_ASSERT(advanced == (fits(product) && fits(base + product)));
  if (advanced) RC_ASSERT(sum == static_cast<std::int64_t>(base + product));
}

TEST(CheckedTest, FitsUpToTheLastValue) {
  std::int64_t sum = 0;
  EXPECT_TRUE(advance(kMaxInt64 - 6, 2, 3, sum));
  EXPECT_EQ(sum, kMaxInt64);
  EXPECT_FALSE(advance(kMaxInt64 - 5, 2, 3, sum));
  EXPECT_EQ(checked_multiply(kMaxInt64, 1), kMaxInt64);
  EXPECT_EQ(checked_multiply(std::int64_t{1} << 32, std::int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(saturated_sum(kMaxInt64 - 6, 6), kMaxInt64);
  EXPECT_EQ(saturated_sum(kMaxInt64 - 6, 7), kMaxInt64);
  EXPECT_EQ(saturated_sum(kMaxInt64 - 6, 5), kMaxInt64 - 1);
}

RC_GTEST_PROP(CeilDivideTest, AgreesWithWideDivision, ()) {
  const std::int64_t numerator = *hostile();
  const std::int64_t denominator = std::max<std::int64_t>(1, *hostile());
  const Int128 wide = (Int128{numerator} + denominator - 1) / denominator;
  RC_ASSERT(ceil_divide(numerator, denominator) == static_cast<std::int64_t>(wide));
}

}  // namespace
}  // namespace sluice
