#include "algorithms/sliding_counter/sliding_counter.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace sluice {
namespace {

using Params = SlidingCounter::Params;
using State = SlidingCounter::State;

// The state in the window of the instant at which the request is decided.
struct Judged {
  State state;
  Instant at = 0;
};

Judged judge(const Params& params, const State& state, Instant now) {
  const std::int64_t window_ns = params.window_ns();
  if (state.current > 0 || state.previous > 0) {
    const Instant at = std::max(now, state.start_ns);
    if (at - state.start_ns < window_ns) return {state, at};
    if (at - state.start_ns < 2 * window_ns) {
      return {{state.start_ns + window_ns, 0, state.current}, at};
    }
  }
  return {{params.window.divide(now) * window_ns, 0, 0}, now};
}

// The estimate of README.md, with its operations in the same order. The build disables fused
// multiply-add.
double used_at(const Params& params, const State& state, Instant at) {
  const auto window = static_cast<double>(params.window_ns());
  const auto left = static_cast<double>(params.window_ns() - (at - state.start_ns));
  return static_cast<double>(state.previous) * (left / window) + static_cast<double>(state.current);
}

bool admits(const Params& params, double used, std::int64_t cost) {
  return used + static_cast<double>(cost) <= static_cast<double>(params.limit);
}

// The largest cost that the admission test admits. Rounding can make the first guess wrong by a
// unit or two, so it is corrected with the test itself.
std::int64_t remaining_at(const Params& params, double used) {
  if (!admits(params, used, 1)) return 0;
  auto cost = static_cast<std::int64_t>(std::floor(static_cast<double>(params.limit) - used));
  while (!admits(params, used, cost)) --cost;
  while (cost < params.limit && admits(params, used, cost + 1)) ++cost;
  return cost;
}

// The first instant of (from, end] at which the counts of `state` admit `cost`. The interval lies
// in the window of `state`. Within a window the estimate never rises, so this is a binary search.
// It starts from the result of the same sum in integers, since rounding changes the answer very
// little: that is too early by at most a nanosecond or, if the window has years, by some hundred.
// REQUIRES: denied at `from`, admitted at `end`.
Instant first_admitted(const Params& params, const State& state, std::int64_t cost, Instant from,
                       Instant end) {
  const auto good = [&](Instant at) { return admits(params, used_at(params, state, at), cost); };
  assert(!good(from) && good(end));
  Instant bad = from;
  if (state.previous > 0) {
    const std::int64_t room = std::max<std::int64_t>(0, params.limit - cost - state.current);
    const auto covered =
        static_cast<std::int64_t>(Int128{room} * params.window_ns() / state.previous);
    end = std::clamp(state.start_ns + params.window_ns() - covered, from, end);
    for (; !good(end); ++end) bad = end;
    std::int64_t step = 1;
    for (; end - step > bad && good(end - step); step *= 2) end -= step;
    bad = std::max(bad, end - step);
  }
  while (end - bad > 1) {
    const Instant middle = bad + (end - bad) / 2;
    (good(middle) ? end : bad) = middle;
  }
  return end;
}

Instant first_admitted(const Params& params, const Judged& judged, std::int64_t cost) {
  const Instant boundary = judged.state.start_ns + params.window_ns();
  const State next{boundary, 0, judged.state.current};
  if (admits(params, used_at(params, next, boundary), cost)) {
    return first_admitted(params, judged.state, cost, judged.at, boundary);
  }
  return first_admitted(params, next, cost, boundary, boundary + params.window_ns());
}

std::int64_t reset_ns(const Params& params, const State& state, Instant now) {
  if (state.current > 0) return state.start_ns + 2 * params.window_ns() - now;
  if (state.previous > 0) return state.start_ns + params.window_ns() - now;
  return 0;
}

Step<State> answer(const Params& params, const Judged& judged, Instant now) {
  const double used = used_at(params, judged.state, judged.at);
  return {admit({.limit = params.limit,
                 .remaining = remaining_at(params, used),
                 .reset_ns = reset_ns(params, judged.state, now)}),
          judged.state};
}

}  // namespace

Step<State> SlidingCounter::take(const Params& params, const State& state, const Call& call) {
  Judged judged = judge(params, state, call.now);
  if (call.cost == 0) return answer(params, judged, call.now);
  const double used = used_at(params, judged.state, judged.at);
  if (!admits(params, used, call.cost)) {
    const std::int64_t retry_ns = call.cost > params.limit
                                      ? kNever.count()
                                      : first_admitted(params, judged, call.cost) - call.now;
    return {deny({.limit = params.limit,
                  .remaining = remaining_at(params, used),
                  .retry_ns = retry_ns,
                  .reset_ns = reset_ns(params, judged.state, call.now)}),
            state};
  }
  judged.state.current += call.cost;
  return answer(params, judged, call.now);
}

Step<State> SlidingCounter::refund(const Params& params, const State& state, const Call& call) {
  Judged judged = judge(params, state, call.now);
  const std::int64_t newest = std::min(judged.state.current, call.cost);
  judged.state.current -= newest;
  judged.state.previous -= std::min(judged.state.previous, call.cost - newest);
  Step<State> step = answer(params, judged, call.now);
  // Only admissions move a key to a new window. So the counts of an earlier window are still stored
  // as those of that window.
  if (judged.state.start_ns > state.start_ns) {
    step.next = {state.start_ns, judged.state.previous, 0};
  }
  return step;
}

Step<State> SlidingCounter::charge(const Params& params, const State& state, const Call& call) {
  Judged judged = judge(params, state, call.now);
  judged.state.current += std::min(call.cost, kMaxCount - judged.state.current);
  return answer(params, judged, call.now);
}

SlidingCounter::Params SlidingCounter::define(PartSyntax& syntax) {
  syntax.finish();
  if (syntax.duration_ns() > kMaxWindowNs) {
    syntax.fail_duration("a sliding_counter's window is at most 2^53 ns, about 104 days");
  }
  return {.limit = syntax.count(), .window = Divider(syntax.duration_ns())};
}

std::string SlidingCounter::state_kind(const Params& params) {
  return std::string(kName) + ' ' + format_duration(params.window_ns());
}

std::string SlidingCounter::describe(const Params& params) {
  return std::string(kName) + ' ' + std::to_string(params.limit) + '/' +
         format_duration(params.window_ns());
}

}  // namespace sluice
