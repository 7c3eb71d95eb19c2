#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/instant.h"
#include "core/limit_syntax.h"
#include "core/operation.h"
#include "sluice/decision.h"

namespace sluice {

/// The caller gave no patience, so the algorithm's default applies: 0 for the token bucket, no
/// bound for the leaky bucket, whose queue is bounded.
inline constexpr std::int64_t kDefaultPatience = -1;

/// The arguments of a transition.
struct Call {
  Instant now = 0;
  /// The units that are asked for, at least 0; 0 is a peek.
  std::int64_t cost = 1;
  /// The longest delay that the caller accepts, in nanoseconds, or kDefaultPatience.
  std::int64_t patience_ns = kDefaultPatience;
  /// Take free units only; do not borrow.
  bool unspent_only = false;
  PermitId permit = 0;
};

/// The result of a transition: a decision, and the change of the state. A store commits `next` if
/// and only if the decision is an admission and the call's cost is above 0.
template <class Change>
struct Step {
  Decision decision;
  Change next;
};

/// The numbers of a part of a limit, whatever its algorithm.
struct LimitNumbers {
  /// As written in the expression: count/window. 0 for `concurrency`, which has no window.
  std::int64_t count = 1;
  std::int64_t window_ns = 0;
  /// The most units that can be admitted at once, and the time in which that many return. They
  /// differ from count and window for buckets only: the burst, and the time to refill it.
  std::int64_t quota = 1;
  std::int64_t quota_window_ns = 0;

  friend bool operator==(const LimitNumbers&, const LimitNumbers&) = default;
};

/// The numbers of an algorithm that admits `count` per window.
constexpr LimitNumbers window_numbers(std::int64_t count, std::int64_t window_ns) {
  return {.count = count, .window_ns = window_ns, .quota = count, .quota_window_ns = window_ns};
}

/// An algorithm is a pure transition: it commits nothing, does no I/O and reads no clock.
///
/// A default-constructed State is that of a fresh key. Most states are a few integers, and their
/// Change is the next state. If a state has no fixed size (core/ring.h, core/permits.h), the Change
/// says what to keep and what to add.
template <class A>
concept Algorithm = requires(const typename A::Params& params, const typename A::State& state,
                             const Call& call, PartSyntax& syntax) {
  requires std::default_initializable<typename A::State>;
  requires std::equality_comparable<typename A::Params>;
  { A::kName } -> std::convertible_to<std::string_view>;
  /// Takes `cost` units or denies; a cost of 0 is a peek.
  { A::take(params, state, call) } -> std::same_as<Step<typename A::Change>>;
  /// Throws InvalidLimit if a number is out of range or a product of numbers overflows.
  { A::define(syntax) } -> std::same_as<typename A::Params>;
  /// kName, and those params that give a state its meaning. If they are equal for two params, keys
  /// keep their states when a limit with one is replaced by a limit with the other.
  { A::state_kind(params) } -> std::same_as<std::string>;
  /// The canonical expression, from which define() makes equal params.
  { A::describe(params) } -> std::same_as<std::string>;
  { A::numbers(params) } -> std::same_as<LimitNumbers>;
};

/// An algorithm whose units are spent and return with time: all but `concurrency`.
template <class A>
concept SpendingAlgorithm = Algorithm<A> &&
    requires(const typename A::Params& params, const typename A::State& state, const Call& call) {
  /// Returns `cost` units, at most until the key is fresh. The decision is that of a peek
  /// afterwards.
  { A::refund(params, state, call) } -> std::same_as<Step<typename A::Change>>;
  /// Takes `cost` units unconditionally. The decision is that of a peek afterwards. More units
  /// than the limit may then count, up to the largest number that the state can hold.
  { A::charge(params, state, call) } -> std::same_as<Step<typename A::Change>>;
};

/// An algorithm that lends permits, which are released or expire.
template <class A>
concept LendingAlgorithm = Algorithm<A> &&
    requires(const typename A::Params& params, const typename A::State& state, const Call& call) {
  /// Renews or releases the permit `call.permit`; denies, with kNever, if it is not held.
  { A::renew(params, state, call) } -> std::same_as<Step<typename A::Change>>;
  { A::release(params, state, call) } -> std::same_as<Step<typename A::Change>>;
};

/// An admission. `reset_ns`, `delay_ns`: as in Decision, in nanoseconds.
struct Admission {
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  std::int64_t reset_ns = 0;
  std::int64_t delay_ns = 0;
};

constexpr Decision admit(const Admission& a) {
  return {.allowed = true,
          .limit = a.limit,
          .remaining = a.remaining,
          .reset_after = std::chrono::nanoseconds(a.reset_ns),
          .delay = std::chrono::nanoseconds(a.delay_ns)};
}

/// A denial. `retry_ns` is at least 1, or kNever's.
struct Denial {
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  std::int64_t retry_ns = kNever.count();
  std::int64_t reset_ns = 0;
};

constexpr Decision deny(const Denial& d) {
  return {.allowed = false,
          .limit = d.limit,
          .remaining = d.remaining,
          .retry_after = std::chrono::nanoseconds(d.retry_ns),
          .reset_after = std::chrono::nanoseconds(d.reset_ns)};
}

/// Runs the transition of an operation. For operations that have none (kBlock, kReset), or that the
/// algorithm does not support, it is a peek. For kTakeUpTo the caller has set the cost to the units
/// that remain, so it is a take.
template <Algorithm A>
Step<typename A::Change> apply(Operation operation, const typename A::Params& params,
                               const typename A::State& state, const Call& call) {
  if (operation == Operation::kTake || operation == Operation::kTakeUpTo) {
    return A::take(params, state, call);
  }
  if constexpr (SpendingAlgorithm<A>) {
    if (operation == Operation::kRefund) return A::refund(params, state, call);
    if (operation == Operation::kCharge) return A::charge(params, state, call);
  }
  if constexpr (LendingAlgorithm<A>) {
    if (operation == Operation::kRenew) return A::renew(params, state, call);
    if (operation == Operation::kRelease) return A::release(params, state, call);
  }
  return A::take(params, state, {.now = call.now, .cost = 0});
}

}  // namespace sluice
