#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/instant.h"

namespace sluice::memory {

/// The numbers of a limit, as far as they tell which keys deny: for each part, the most that a key
/// may have used without denying a unit (see most_used()), rounded down. A key that denies by its
/// own numbers also denies by the rounded ones. Equal codes of limits of one kind stand for equal
/// rounded numbers.
class NumbersCode {
 public:
  enum class Rounding : bool {
    kCoarse,  ///< To 6 bits, so that one part has less than 2,000 different ones.
    kFine,    ///< To 52 bits, or fewer if there are several parts: most numbers are as they were.
  };

  /// No numbers.
  constexpr NumbersCode() = default;
  NumbersCode(const std::vector<AnyPart>& parts, Rounding rounding) {
    const int bits = bits_of(parts.size(), rounding);
    code_ = code_of(most_used_by(parts[0]), bits);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      code_ = code_ << kPartBits[parts.size()] | code_of(most_used_by(parts[i]), bits);
    }
    code_ |= Uint128{rounding == Rounding::kFine} << 127;
  }

  Rounding rounding() const { return Rounding{code_ >> 127 != 0}; }
  std::uint64_t hash() const {
    const auto both = static_cast<std::uint64_t>(code_) ^ static_cast<std::uint64_t>(code_ >> 61);
    return both * 0x9E3779B97F4A7C15U;
  }
  friend bool operator==(const NumbersCode&, const NumbersCode&) = default;

  /// Parts like these with the rounded numbers.
  static std::vector<AnyPart> rounded(std::vector<AnyPart> parts, Rounding rounding) {
    const int bits = bits_of(parts.size(), rounding);
    return with_used(std::move(parts), [bits](std::int64_t used) { return floor_of(used, bits); });
  }
  /// Parts like these with the smallest numbers: a key denies by them until it is fresh.
  static std::vector<AnyPart> strictest(std::vector<AnyPart> parts) {
    return with_used(std::move(parts), [](std::int64_t) { return 0; });
  }

 private:
  /// The bits of the code of a part, by the number of parts. A number that is rounded to so many
  /// bits takes up to 5 more: it is below 2^61, and its code says how many bits were cut off.
  static constexpr std::array<int, kMaxParts + 1> kPartBits{0, 63, 63, 42, 31, 25, 21, 18, 15};
  static int bits_of(std::size_t parts, Rounding rounding) {
    // Not more than an expression can say, for snapshots.
    return rounding == Rounding::kFine ? std::min(52, kPartBits[parts] - 6) : 6;
  }

  static std::int64_t most_used_by(const AnyPart& part) {
    return std::visit(
        []<class P>(const P& p) { return most_used<typename P::Algorithm>(p.params); }, part);
  }
  static int cut_bits(std::int64_t used, int bits) {
    assert(used >= 0 && used < kMaxDurationNs);
    return std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(used))) - bits);
  }
  static std::int64_t floor_of(std::int64_t used, int bits) {
    const int cut = cut_bits(used, bits);
    return used >> cut << cut;
  }
  static std::uint64_t code_of(std::int64_t used, int bits) {
    const int cut = cut_bits(used, bits);
    return (static_cast<std::uint64_t>(cut) << (bits - 1)) +
           (static_cast<std::uint64_t>(used) >> cut);
  }

  template <class Change>
  static std::vector<AnyPart> with_used(std::vector<AnyPart> parts, Change change) {
    for (AnyPart& part : parts) {
      const std::int64_t used = change(most_used_by(part));
      std::visit(
          [&]<class P>(P& p) { p.params = with_most_used<typename P::Algorithm>(p.params, used); },
          part);
    }
    return parts;
  }

  Uint128 code_ = ~Uint128{0};
};

}  // namespace sluice::memory
