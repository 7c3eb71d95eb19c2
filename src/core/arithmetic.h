#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace sluice {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

inline constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

/// a * b, or nothing where the product does not fit.
constexpr std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// Sets sum to base + units * each; false where that exceeds 2^63 - 1.
[[nodiscard]] constexpr bool advance(std::int64_t base, std::int64_t units, std::int64_t each,
                                     std::int64_t& sum) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(units, each, &product) &&
         !__builtin_add_overflow(base, product, &sum);
}

/// ceil(numerator / denominator). REQUIRES: numerator >= 0, denominator >= 1.
constexpr std::int64_t ceil_divide(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
}

/// Divides by a divisor fixed in advance with one multiplication (a hardware division costs several
/// times as much on the hot path). Exact for every dividend from 0 to 2^63 - 1: the reciprocal is
/// short by less than one part in 2^64, so the estimate is short by at most one.
class Divider {
 public:
  Divider() = default;
  /// REQUIRES: divisor >= 1.
  explicit constexpr Divider(std::int64_t divisor)
      : divisor_(static_cast<std::uint64_t>(divisor)),
        reciprocal_(divisor == 1 ? std::numeric_limits<std::uint64_t>::max()
                                 : static_cast<std::uint64_t>((Uint128{1} << 64) / divisor_)) {}

  constexpr std::int64_t divisor() const { return static_cast<std::int64_t>(divisor_); }

  /// floor(dividend / divisor). REQUIRES: dividend >= 0.
  constexpr std::int64_t divide(std::int64_t dividend) const {
    const auto n = static_cast<std::uint64_t>(dividend);
    const auto estimate = static_cast<std::uint64_t>((Uint128{n} * reciprocal_) >> 64);
    return static_cast<std::int64_t>(estimate + (n - estimate * divisor_ >= divisor_ ? 1 : 0));
  }

  friend bool operator==(const Divider&, const Divider&) = default;

 private:
  std::uint64_t divisor_ = 1;
  std::uint64_t reciprocal_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace sluice
