#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "algorithms/ring_log.h"
#include "core/algorithm.h"
#include "core/arithmetic.h"
#include "core/ring.h"

namespace sluice {

/// sliding_window L/W, precision P: counts by sub-windows of length P, so its memory is bounded by
/// W / P. Strict (the default): never more than L in any interval of length W. See README.md.
///
/// It is a sliding log in which a unit admitted in sub-window j, [jP, (j+1)P), has the stamp jP and
/// counts for (k + 1)P (kP if not strict), with k = ceil(W / P).
struct SlidingWindow {
  static constexpr std::string_view kName = "sliding_window";
  static constexpr std::int64_t kMaxSubWindows = 1'000;

  struct Params {
    std::int64_t limit = 1;
    std::int64_t window_ns = 1;
    Divider precision;
    std::int64_t lifetime_ns = 2;
    bool strict = true;

    std::int64_t precision_ns() const { return precision.divisor(); }

    friend bool operator==(const Params&, const Params&) = default;
  };
  using State = Ring;
  using Change = RingChange;

  static Step<Change> take(const Params& params, const State& state, const Call& call) {
    const Instant judged = ring_judged_at(state, call.now);
    return ring_take({params.limit, params.lifetime_ns}, state, call,
                     params.precision.divide(judged) * params.precision_ns());
  }

  static Step<Change> refund(const Params& params, const State& state, const Call& call) {
    return ring_refund({params.limit, params.lifetime_ns}, state, call);
  }

  static Step<Change> charge(const Params& params, const State& state, const Call& call) {
    const Instant judged = ring_judged_at(state, call.now);
    return ring_charge({params.limit, params.lifetime_ns}, state, call,
                       params.precision.divide(judged) * params.precision_ns());
  }

  /// Strict, if such a limit is possible: then units count for longer.
  static Params with_most_used(Params params, std::int64_t used) {
    if (!params.strict && params.lifetime_ns + params.precision_ns() <= kEndOfTime) {
      params.strict = true;
      params.lifetime_ns += params.precision_ns();
    }
    params.limit = used + 1;
    return params;
  }

  static std::string state_kind(const Params& params);
  static Params define(PartSyntax& syntax);
  static std::string describe(const Params& params);
  static LimitNumbers numbers(const Params& params) {
    return window_numbers(params.limit, params.window_ns);
  }
};

static_assert(Algorithm<SlidingWindow>);
// So charges never run out of entries, and never move to a later sub-window.
static_assert(SlidingWindow::kMaxSubWindows + 1 < most_entries(1));

}  // namespace sluice
