#include "protocols/resp/throttle_limits.h"

#include <cassert>
#include <string>
#include <utility>

#include "core/arithmetic.h"

namespace sluice::resp {
namespace {

// T = ceil(period / count). In 128 bits, since the period comes in seconds of 64 bits.
Int128 emission_interval_ns(const ThrottleNumbers& numbers) {
  return (Int128{numbers.period_s} * kSecondNs + numbers.count - 1) / numbers.count;
}

std::shared_ptr<const VaryingLimit> open_any(Store& store) {
  LimitDefinition definition = define_throttle({.max_burst = 0, .count = 1, .period_s = 1});
  auto space = store.open_space(definition);
  return std::make_shared<const VaryingLimit>(
      VaryingLimit{std::move(definition), std::move(space)});
}

}  // namespace

std::optional<std::string_view> find_error(const ThrottleNumbers& numbers) {
  if (numbers.max_burst < 0) return "ERR max_burst must be at least 0";
  if (numbers.count < 1) return "ERR count must be at least 1";
  if (numbers.period_s < 1) return "ERR period must be at least 1";
  // Divided rather than multiplied: the product may need more than 128 bits.
  if (Int128{numbers.max_burst} + 1 > kMaxDurationNs / emission_interval_ns(numbers)) {
    return "ERR max_burst and period are too large for count: the whole burst would take more "
           "than 2^61 ns, about 73 years, to come back";
  }
  return std::nullopt;
}

LimitDefinition define_throttle(const ThrottleNumbers& numbers) {
  assert(!find_error(numbers));
  // One unit per emission interval is the same bucket, and holds where the period would not.
  const auto interval_ns = static_cast<std::int64_t>(emission_interval_ns(numbers));
  TokenBucket::Params params;
  static_cast<BucketParams&>(params) = bucket_params(1, interval_ns, numbers.max_burst + 1).value();
  LimitDefinition limit;
  limit.space = kThrottleSpace;
  limit.expression = TokenBucket::describe(params);
  limit.varies = true;
  limit.parts.emplace_back(Part<TokenBucket>{params});
  return limit;
}

ThrottleLimits::ThrottleLimits(Store& store) : any_(open_any(store)) {}

std::size_t ThrottleLimits::Hash::operator()(const ThrottleNumbers& numbers) const {
  // Odd multipliers and a shift distribute small numbers well, which these nearly always are.
  std::uint64_t hash = static_cast<std::uint64_t>(numbers.max_burst) * 0x9E3779B97F4A7C15U;
  hash = (hash ^ (hash >> 29) ^ static_cast<std::uint64_t>(numbers.count)) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ (hash >> 32) ^ static_cast<std::uint64_t>(numbers.period_s)) * 0x94D049BB133111EBU;
  return hash ^ (hash >> 31);
}

const std::shared_ptr<const VaryingLimit>& ThrottleLimits::make(const ThrottleNumbers& numbers) {
  return limits_.insert(numbers, std::make_shared<const VaryingLimit>(
                                     VaryingLimit{define_throttle(numbers), any_->space}));
}

}  // namespace sluice::resp
