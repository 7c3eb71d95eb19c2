#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice::bench {

/// A histogram of latencies with buckets of 1/32 of a power of two, so a quantile is exact to about
/// 3 %. Not thread-safe.
class LatencyHistogram {
 public:
  void add(std::uint64_t latency_ns, std::uint64_t times) {
    counts_[bucket(latency_ns)] += times;
    total_ += times;
  }

  /// The largest latency of the bucket that contains the quantile `share`, from 0 to 1; 0 if the
  /// histogram is empty.
  std::uint64_t quantile_ns(double share) const {
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(total_));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > wanted || (seen == total_ && total_ != 0)) return largest(i);
    }
    return 0;
  }

 private:
  static constexpr int kBits = 5;
  static constexpr std::size_t kSteps = std::size_t{1} << kBits;

  static std::size_t bucket(std::uint64_t ns) {
    if (ns < kSteps) return ns;
    const int shift = static_cast<int>(std::bit_width(ns)) - 1 - kBits;
    return (static_cast<std::size_t>(shift) + 1) * kSteps + ((ns >> shift) - kSteps);
  }

  static std::uint64_t largest(std::size_t bucket) {
    if (bucket < kSteps) return bucket;
    const std::size_t shift = bucket / kSteps - 1;
    return ((kSteps + bucket % kSteps + 1) << shift) - 1;
  }

  std::array<std::uint64_t, 60 * kSteps> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace sluice::bench
