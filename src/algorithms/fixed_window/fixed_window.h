#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/algorithm.h"
#include "core/arithmetic.h"

namespace sluice {

/// fixed_window L/W: at most L per window. Windows follow the clock ([kW, (k+1)W) from the epoch),
/// or start at the first admitted request (anchor=first). Up to 2L around a boundary. See
/// README.md.
struct FixedWindow {
  static constexpr std::string_view kName = "fixed_window";

  struct Params {
    std::int64_t limit = 1;
    Divider window;
    bool first = false;

    std::int64_t window_ns() const { return window.divisor(); }

    friend bool operator==(const Params&, const Params&) = default;
  };

  struct State {
    Instant start_ns = 0;
    std::int64_t count = 0;
  };
  using Change = State;

  /// The state in 63 bits, if the window's number and the count fit, which is possible only with
  /// anchor=clock. The layout depends only on the window's length, so a changed limit can read the
  /// states of the old one.
  static std::optional<std::uint64_t> pack(const Params& params, const State& state) {
    if (params.first) return std::nullopt;
    const int count_bits = 63 - number_bits(params);
    const auto count = static_cast<std::uint64_t>(state.count);
    if (count >> count_bits != 0) return std::nullopt;
    const auto number = static_cast<std::uint64_t>(params.window.divide(state.start_ns));
    return number << count_bits | count;
  }
  static State unpack(const Params& params, std::uint64_t word) {
    const int count_bits = 63 - number_bits(params);
    const std::uint64_t number = word >> count_bits;
    return {static_cast<std::int64_t>(number) * params.window_ns(),
            static_cast<std::int64_t>(word & ((std::uint64_t{1} << count_bits) - 1))};
  }

  static Step<Change> take(const Params& params, const State& state, const Call& call) {
    const State current = window_at(params, state, call.now);
    const std::int64_t end_ns = current.start_ns + params.window_ns();
    if (call.cost > 0 && call.cost > params.limit - current.count) {
      return {deny({.limit = params.limit,
                    .remaining = std::max<std::int64_t>(0, params.limit - current.count),
                    .retry_ns = call.cost > params.limit ? kNever.count() : end_ns - call.now,
                    .reset_ns = current.count > 0 ? end_ns - call.now : 0}),
              state};
    }
    return answer(params, {current.start_ns, current.count + call.cost}, call.now);
  }

  static Step<Change> refund(const Params& params, const State& state, const Call& call) {
    State current = window_at(params, state, call.now);
    current.count -= std::min(current.count, call.cost);
    return answer(params, current, call.now);
  }

  static Step<Change> charge(const Params& params, const State& state, const Call& call) {
    State current = window_at(params, state, call.now);
    current.count += std::min(call.cost, kMaxCount - current.count);
    return answer(params, current, call.now);
  }

  static std::string state_kind(const Params& params);
  static Params define(PartSyntax& syntax);
  static std::string describe(const Params& params);
  static LimitNumbers numbers(const Params& params) {
    return window_numbers(params.limit, params.window_ns());
  }

 private:
  static int number_bits(const Params& params) {
    const auto last = static_cast<std::uint64_t>(params.window.divide(kEndOfTime - 1));
    return static_cast<int>(std::bit_width(last));
  }

  /// The window for `now`: that of the state, or a fresh one after its end.
  static State window_at(const Params& params, const State& state, Instant now) {
    if (state.count > 0 && now < state.start_ns + params.window_ns()) return state;
    if (params.first) return {now, 0};
    return {params.window.divide(now) * params.window_ns(), 0};
  }

  static Step<Change> answer(const Params& params, const State& next, Instant now) {
    const std::int64_t end_ns = next.start_ns + params.window_ns();
    return {admit({.limit = params.limit,
                   .remaining = std::max<std::int64_t>(0, params.limit - next.count),
                   .reset_ns = next.count > 0 ? end_ns - now : 0}),
            next};
  }
};

static_assert(Algorithm<FixedWindow>);

}  // namespace sluice
