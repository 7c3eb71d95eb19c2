#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>

#include "algorithms/bucket.h"
#include "core/algorithm.h"

namespace sluice {

/// leaky_bucket C/p queue=q: a queue of q behind the one in service, drained at a constant rate.
/// An admitted caller goes ahead after `delay`, at least T = ceil(p / C) after the one before it.
/// See README.md.
struct LeakyBucket : Bucket {
  static constexpr std::string_view kName = "leaky_bucket";

  /// burst is q + 1.
  using Params = BucketParams;

  static Step<Change> take(const Params& params, const State& state, const Call& call) {
    assert(call.patience_ns >= 0 || call.patience_ns == kDefaultPatience);
    if (call.cost == 0) return bucket_admit(params, state, call.now, 0);
    if (call.cost > params.burst) return bucket_deny(params, state, call.now, kNever.count());
    const std::int64_t base = std::max(call.now, state.tat_ns);
    State next;
    if (!advance(base, call.cost, params.interval_ns(), next.tat_ns)) {
      return bucket_deny(params, state, call.now, kNever.count());
    }
    // The queue must have room, and the wait must not exceed the caller's patience.
    const std::int64_t room_ns = next.tat_ns - params.tolerance_ns - call.now;
    const std::int64_t delay_ns = base - call.now;
    const std::int64_t impatience_ns =
        call.patience_ns == kDefaultPatience ? 0 : delay_ns - call.patience_ns;
    const std::int64_t retry_ns = std::max(room_ns, impatience_ns);
    if (retry_ns > 0) return bucket_deny(params, state, call.now, retry_ns);
    return bucket_admit(params, next, call.now, delay_ns);
  }

  static std::string state_kind(const Params&) { return std::string(kName); }
  static Params define(PartSyntax& syntax);
  static std::string describe(const Params& params);
};

static_assert(Algorithm<LeakyBucket>);

}  // namespace sluice
