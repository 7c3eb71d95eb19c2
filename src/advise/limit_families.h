#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "algorithms/limit_definition.h"

namespace sluice::advise {

/// The limits that are tried and suggested, ascending: 1 2 3 5 7 10 15 20 30 50 70 100 … 10^12.
const std::vector<std::int64_t>& limit_series();

/// The index of the smallest number of limit_series() that is at least `number`, or of the last.
std::size_t series_index(std::int64_t number);

/// Limits of one algorithm that differ in one number, the limit (of a token bucket the burst).
template <class A>
struct LimitFamily {
  /// With the largest number that the algorithm can have.
  typename A::Params unlimited;
  /// With the numbers of limit_series(), as many as the algorithm can have.
  std::vector<typename A::Params> limits;
};

/// A family, and what distinguishes it from others.
struct FamilyInfo {
  /// The expression is before + limit + after: "fixed_window " + "5" + "/1m".
  std::string before;
  std::string after;
  /// Of a window its length; of a bucket the period of its rate.
  std::int64_t period_ns = 0;
  /// Units per period of a bucket; 0 for a window.
  std::int64_t rate = 0;
  /// How many numbers of limit_series() the algorithm can have.
  std::size_t limits = 0;

  bool is_bucket() const { return rate != 0; }
  std::string expression(std::int64_t limit) const {
    return before + std::to_string(limit) + after;
  }
  /// The expression, with L instead of the limit.
  std::string pattern() const { return before + 'L' + after; }
  /// The leaky buckets that admit what the token buckets of this family admit; their limit, the
  /// queue, is one less than the burst. REQUIRES: is_bucket().
  FamilyInfo leaky_bucket() const;
  /// The time in which all units of this limit return.
  std::int64_t recovery_ns(std::int64_t limit) const;
};

inline constexpr std::size_t kWindows = 6;
inline constexpr std::size_t kRates = 10;
inline constexpr std::size_t kFirstSliding = kRates;
inline constexpr std::size_t kFirstFixed = kFirstSliding + kWindows;
inline constexpr std::size_t kFirstCounter = kFirstFixed + kWindows;
inline constexpr std::size_t kFirstLog = kFirstCounter + kWindows;
inline constexpr std::size_t kFamilies = kFirstLog + kWindows;

/// A sliding log has an entry for each unit that counts, so only logs up to this limit are tried.
inline constexpr std::int64_t kLargestLog = 300;

/// All families that are measured: token buckets by ascending rate, then by ascending length the
/// windows of each algorithm. A family's number is its place in this order. Leaky buckets are not
/// measured, see FamilyInfo::leaky_bucket().
struct LimitFamilies {
  LimitFamilies();

  std::array<LimitFamily<TokenBucket>, kRates> buckets;
  std::array<LimitFamily<SlidingWindow>, kWindows> sliding;
  std::array<LimitFamily<FixedWindow>, kWindows> fixed;
  std::array<LimitFamily<SlidingCounter>, kWindows> counters;
  std::array<LimitFamily<SlidingLog>, kWindows> logs;
  std::array<FamilyInfo, kFamilies> info;
};

/// The families, made once.
const LimitFamilies& limit_families();

}  // namespace sluice::advise
