#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <limits>
#include <optional>

namespace sluice {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

inline constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

/// a * b, or nothing if the product overflows.
constexpr std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// a + b, at most kMaxInt64. REQUIRES: neither is negative.
constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  assert(a >= 0 && b >= 0);
  return a + (b < kMaxInt64 - a ? b : kMaxInt64 - a);
}

/// Sets sum to base + units * each; returns false if that exceeds 2^63 - 1.
[[nodiscard]] constexpr bool advance(std::int64_t base, std::int64_t units, std::int64_t each,
                                     std::int64_t& sum) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(units, each, &product) &&
         !__builtin_add_overflow(base, product, &sum);
}

/// ceil(numerator / denominator). REQUIRES: numerator >= 0, denominator >= 1.
constexpr std::int64_t ceil_divide(std::int64_t numerator, std::int64_t denominator) {
  assert(numerator >= 0 && denominator >= 1);
  return numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
}

/// Divides by a constant divisor with one multiplication, since a hardware division costs several
/// times as much on the hot path. Exact for every dividend n from 0 to 2^63 - 1: with 2^s the least
/// power of two that is not less than the divisor d, and m = ceil(2^(63 + s) / d), the error of
/// m * n / 2^(63 + s) is too small to reach the next integer (T. Granlund, P. L. Montgomery:
/// Division by Invariant Integers using Multiplication, PLDI 1994, theorem 4.2).
class Divider {
 public:
  Divider() = default;
  /// REQUIRES: divisor >= 1.
  explicit constexpr Divider(std::int64_t divisor)
      : divisor_((assert(divisor >= 1), divisor)),
        shift_(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(divisor) - 1))),
        multiplier_(static_cast<std::uint64_t>(
            ((Uint128{1} << (63 + shift_)) - 1) / static_cast<std::uint64_t>(divisor) + 1)) {}

  constexpr std::int64_t divisor() const { return divisor_; }

  /// floor(dividend / divisor). REQUIRES: dividend >= 0.
  constexpr std::int64_t divide(std::int64_t dividend) const {
    assert(dividend >= 0);
    const std::uint64_t doubled = static_cast<std::uint64_t>(dividend) << 1;
    const auto high = static_cast<std::uint64_t>((Uint128{doubled} * multiplier_) >> 64);
    return static_cast<std::int64_t>(high >> shift_);
  }

  friend bool operator==(const Divider& a, const Divider& b) { return a.divisor_ == b.divisor_; }

 private:
  std::int64_t divisor_ = 1;
  int shift_ = 0;
  std::uint64_t multiplier_ = std::uint64_t{1} << 63;
};

}  // namespace sluice
