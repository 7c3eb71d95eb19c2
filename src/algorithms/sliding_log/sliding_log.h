#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "algorithms/ring_log.h"
#include "core/algorithm.h"
#include "core/ring.h"

namespace sluice {

/// sliding_log L/W: at most L in any interval of length W, exactly. Stores each admitted instant,
/// so its memory grows with the limit. See README.md.
struct SlidingLog {
  static constexpr std::string_view kName = "sliding_log";
  static constexpr std::int64_t kMaxLimit = 65'536;

  struct Params {
    std::int64_t limit = 1;
    std::int64_t window_ns = 1;

    friend bool operator==(const Params&, const Params&) = default;
  };
  using State = Ring;
  using Change = RingChange;

  static Step<Change> take(const Params& params, const State& state, const Call& call) {
    return ring_take({params.limit, params.window_ns}, state, call,
                     ring_judged_at(state, call.now));
  }

  static Step<Change> refund(const Params& params, const State& state, const Call& call) {
    return ring_refund({params.limit, params.window_ns}, state, call);
  }

  static Step<Change> charge(const Params& params, const State& state, const Call& call) {
    return ring_charge({params.limit, params.window_ns}, state, call,
                       ring_judged_at(state, call.now));
  }

  static std::string state_kind(const Params& params);
  static Params define(PartSyntax& syntax);
  static std::string describe(const Params& params);
  static LimitNumbers numbers(const Params& params) {
    return window_numbers(params.limit, params.window_ns);
  }
};

static_assert(Algorithm<SlidingLog>);

}  // namespace sluice
