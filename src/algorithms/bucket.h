#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>

#include "core/algorithm.h"
#include "core/arithmetic.h"

namespace sluice {

/// The state of the token bucket and the leaky bucket, which share the arithmetic of the Generic
/// Cell Rate Algorithm (ITU-T I.371, "virtual scheduling"). The state is one absolute instant, the
/// theoretical arrival time (TAT): how far it lies ahead of now tells how much has been spent.
struct BucketState {
  std::int64_t tat_ns = 0;
};

struct BucketParams {
  /// T, the time after which one unit returns: ceil(period / count).
  Divider interval;
  /// b, the most units at once; count and period are the rate as written in the expression.
  std::int64_t burst = 1;
  std::int64_t count = 1;
  std::int64_t period_ns = 1;
  /// b * T, at most 2^61 ns.
  std::int64_t tolerance_ns = 1;

  std::int64_t interval_ns() const { return interval.divisor(); }

  friend bool operator==(const BucketParams&, const BucketParams&) = default;
};

/// Params of a rate of `count` per `period_ns` with a burst, or nothing if burst * ceil(period /
/// count) exceeds 2^61 ns. REQUIRES: count, period_ns, burst >= 1.
constexpr std::optional<BucketParams> bucket_params(std::int64_t count, std::int64_t period_ns,
                                                    std::int64_t burst) {
  assert(count >= 1 && period_ns >= 1 && burst >= 1);
  const std::int64_t interval_ns = ceil_divide(period_ns, count);
  const auto tolerance_ns = checked_multiply(burst, interval_ns);
  if (!tolerance_ns || *tolerance_ns > kMaxDurationNs) return std::nullopt;
  return BucketParams{.interval = Divider(interval_ns),
                      .burst = burst,
                      .count = count,
                      .period_ns = period_ns,
                      .tolerance_ns = *tolerance_ns};
}

/// How much of the bucket is spent at `now`, in nanoseconds; 0 for a fresh key.
inline std::int64_t bucket_debt(BucketState state, Instant now) {
  return std::max<std::int64_t>(0, state.tat_ns - now);
}

/// floor((bT - debt) / T), not below 0.
inline std::int64_t bucket_remaining(const BucketParams& params, std::int64_t debt_ns) {
  if (debt_ns >= params.tolerance_ns) return 0;
  return params.interval.divide(params.tolerance_ns - debt_ns);
}

/// An admission with the next state `next`; with cost 0, a peek.
inline Step<BucketState> bucket_admit(const BucketParams& params, BucketState next, Instant now,
                                      std::int64_t delay_ns) {
  const std::int64_t debt_ns = bucket_debt(next, now);
  return {admit({.limit = params.burst,
                 .remaining = bucket_remaining(params, debt_ns),
                 .reset_ns = debt_ns,
                 .delay_ns = delay_ns}),
          next};
}

inline Step<BucketState> bucket_deny(const BucketParams& params, BucketState state, Instant now,
                                     std::int64_t retry_ns) {
  const std::int64_t debt_ns = bucket_debt(state, now);
  return {deny({.limit = params.burst,
                .remaining = bucket_remaining(params, debt_ns),
                .retry_ns = retry_ns,
                .reset_ns = debt_ns}),
          state};
}

/// What the algorithms of the two buckets have in common.
struct Bucket {
  using State = BucketState;
  using Change = BucketState;

  /// The state in 63 bits: the instant itself.
  static std::optional<std::uint64_t> pack(const BucketParams&, State state) {
    return static_cast<std::uint64_t>(state.tat_ns);
  }
  static State unpack(const BucketParams&, std::uint64_t word) {
    return {static_cast<std::int64_t>(word)};
  }

  /// TAT - nT, not below now.
  static Step<Change> refund(const BucketParams& params, State state, const Call& call) {
    const std::int64_t debt_ns = bucket_debt(state, call.now);
    const auto given_ns = checked_multiply(call.cost, params.interval_ns());
    if (debt_ns > 0) state.tat_ns -= given_ns ? std::min(*given_ns, debt_ns) : debt_ns;
    return bucket_admit(params, state, call.now, 0);
  }

  /// TAT = max(now, TAT) + nT, at most 2^63 - 1.
  static Step<Change> charge(const BucketParams& params, State state, const Call& call) {
    const std::int64_t base = std::max(call.now, state.tat_ns);
    if (call.cost > 0 && !advance(base, call.cost, params.interval_ns(), state.tat_ns)) {
      state.tat_ns = kMaxInt64;
    }
    return bucket_admit(params, state, call.now, 0);
  }

  /// Nanoseconds of debt: see sluice::most_used().
  static std::int64_t most_used(const BucketParams& params) {
    return params.tolerance_ns - params.interval_ns();
  }
  /// REQUIRES: used_ns < kMaxDurationNs.
  static BucketParams with_most_used(const BucketParams&, std::int64_t used_ns) {
    // Of all intervals that divide it without a rest, this is a power of two.
    const std::int64_t interval_ns = used_ns == 0 ? 1 : used_ns & -used_ns;
    return bucket_params(1, interval_ns, used_ns / interval_ns + 1).value();
  }

  static LimitNumbers numbers(const BucketParams& params) {
    return {.count = params.count,
            .window_ns = params.period_ns,
            .quota = params.burst,
            .quota_window_ns = params.tolerance_ns};
  }
};

}  // namespace sluice
