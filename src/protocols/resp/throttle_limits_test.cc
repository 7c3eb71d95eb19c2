#include "protocols/resp/throttle_limits.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/arithmetic.h"

namespace sluice::resp {
namespace {

const TokenBucket::Params& params_of(const LimitDefinition& limit) {
  return std::get<Part<TokenBucket>>(limit.parts.at(0)).params;
}

std::string error_of(const ThrottleNumbers& numbers) {
  return std::string(find_error(numbers).value_or("none"));
}

TEST(ThrottleLimits, AcceptsTheLargestBucketAndNoLarger) {
  // One unit a nanosecond: the burst is its own time.
  const ThrottleNumbers most{.max_burst = kMaxDurationNs - 1, .count = kMaxInt64, .period_s = 1};
  EXPECT_EQ(error_of(most), "none");
  EXPECT_EQ(params_of(define_throttle(most)).tolerance_ns, kMaxDurationNs);
  EXPECT_NE(error_of({most.max_burst + 1, most.count, most.period_s}), "none");

  // A period that fits no count of nanoseconds, but whose emission interval does.
  const ThrottleNumbers slow{.max_burst = 0, .count = kMaxInt64, .period_s = kMaxInt64};
  EXPECT_EQ(params_of(define_throttle(slow)).interval_ns(), 1'000'000'000);
}

RC_GTEST_PROP(ThrottleLimits, RefusesExactlyWhatCannotBeHeld, ()) {
  const auto any = [] {
    return *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 1'000),
                           rc::gen::inRange<std::int64_t>(1, kMaxInt64));
  };
  const ThrottleNumbers numbers{.max_burst = any(), .count = any(), .period_s = any()};
  const Int128 interval_ns =
      (Int128{numbers.period_s} * 1'000'000'000 + numbers.count - 1) / numbers.count;
  const bool fits = interval_ns <= kMaxDurationNs &&
                    interval_ns * (Int128{numbers.max_burst} + 1) <= kMaxDurationNs;
  RC_ASSERT(fits == !find_error(numbers).has_value());
  if (fits) {
    const auto limit = define_throttle(numbers);
    RC_ASSERT(params_of(limit).burst == numbers.max_burst + 1);
    RC_ASSERT(params_of(limit).interval_ns() == static_cast<std::int64_t>(interval_ns));
  }
}

}  // namespace
}  // namespace sluice::resp
