#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "algorithms/bucket.h"
#include "core/algorithm.h"

namespace sluice {

/// token_bucket C/p, burst b: at most b + t/T units in any interval t, T = ceil(p / C). Starts
/// full. With patience, a request may reserve future units and wait for them; with borrow=yes it
/// passes if the bucket is not overdrawn, and the next caller waits. See README.md.
struct TokenBucket : Bucket {
  static constexpr std::string_view kName = "token_bucket";
  static constexpr std::string_view kAlias = "gcra";

  struct Params : BucketParams {
    bool borrow = false;

    friend bool operator==(const Params&, const Params&) = default;
  };

  static Step<Change> take(const Params& params, const State& state, const Call& call) {
    if (call.cost == 0) return bucket_admit(params, state, call.now, 0);
    const bool borrows = params.borrow && !call.unspent_only;
    if (!borrows && call.cost > params.burst) {
      return bucket_deny(params, state, call.now, kNever.count());
    }
    const std::int64_t base = std::max(call.now, state.tat_ns);
    State next;
    if (!advance(base, call.cost, params.interval_ns(), next.tat_ns)) {
      return bucket_deny(params, state, call.now, kNever.count());
    }
    // With borrowing, a request waits until earlier debts are paid; without, also for its own cost.
    const std::int64_t from = borrows ? base : next.tat_ns;
    const std::int64_t wait_ns = std::max<std::int64_t>(0, from - params.tolerance_ns - call.now);
    const std::int64_t patience_ns = std::max<std::int64_t>(0, call.patience_ns);
    if (wait_ns > patience_ns) {
      return bucket_deny(params, state, call.now, wait_ns - patience_ns);
    }
    return bucket_admit(params, next, call.now, wait_ns);
  }

  /// With borrowing, a key denies only once it is overdrawn.
  static std::int64_t most_used(const Params& params) {
    if (!params.borrow) return Bucket::most_used(params);
    return std::min(params.tolerance_ns, kMaxDurationNs - 1);
  }
  static Params with_most_used(const Params& params, std::int64_t used_ns) {
    return {Bucket::with_most_used(params, used_ns), false};
  }

  static std::string state_kind(const Params&) { return std::string(kName); }
  static Params define(PartSyntax& syntax);
  static std::string describe(const Params& params);
};

static_assert(Algorithm<TokenBucket>);

}  // namespace sluice
