#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/algorithm.h"
#include "core/arithmetic.h"

namespace sluice {

/// sliding_counter L/W: two counters per key; that of the previous window is weighted by the share
/// of it that the sliding window still covers. An estimate: up to about 2L within W under
/// adversarial traffic. See README.md.
struct SlidingCounter {
  static constexpr std::string_view kName = "sliding_counter";
  /// Up to this length, a window and every instant in it are exact in a double.
  static constexpr std::int64_t kMaxWindowNs = std::int64_t{1} << 53;

  struct Params {
    std::int64_t limit = 1;
    Divider window;

    std::int64_t window_ns() const { return window.divisor(); }

    friend bool operator==(const Params&, const Params&) = default;
  };

  /// The counts of the window that starts at start_ns and of the one before it.
  struct State {
    Instant start_ns = 0;
    std::int64_t current = 0;
    std::int64_t previous = 0;
  };
  using Change = State;

  static Step<Change> take(const Params& params, const State& state, const Call& call);
  static Step<Change> refund(const Params& params, const State& state, const Call& call);
  static Step<Change> charge(const Params& params, const State& state, const Call& call);

  static std::string state_kind(const Params& params);
  static Params define(PartSyntax& syntax);
  static std::string describe(const Params& params);
  static LimitNumbers numbers(const Params& params) {
    return window_numbers(params.limit, params.window_ns());
  }
};

static_assert(Algorithm<SlidingCounter>);

}  // namespace sluice
