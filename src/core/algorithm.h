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

/// No patience was given: the algorithm's own default applies (none for the token bucket, without
/// limit for the leaky bucket, whose queue is its bound).
inline constexpr std::int64_t kDefaultPatience = -1;

/// What is asked of one state at one instant.
struct Call {
  Instant now = 0;
  /// Units asked for, at least 0; 0 is a peek.
  std::int64_t cost = 1;
  /// The longest delay the caller accepts, in nanoseconds, or kDefaultPatience.
  std::int64_t patience_ns = kDefaultPatience;
  /// Only units that are there: nothing is borrowed.
  bool unspent_only = false;
  PermitId permit = 0;
};

/// What a transition answers: a decision, and the state that follows it. A store commits `next` if
/// and only if the decision allows and the call's cost is above 0.
template <class Change>
struct Step {
  Decision decision;
  Change next;
};

/// An algorithm is a pure transition: it commits nothing, does no I/O and reads no clock.
///
/// A default-constructed State is a fresh key's. Most states are a few integers and are their own
/// Change; where a state has no fixed size (core/ring.h, core/permits.h) the Change says what to
/// keep and to add.
template <class A>
concept Algorithm = requires(const typename A::Params& params, const typename A::State& state,
                             const Call& call, PartSyntax& syntax) {
  requires std::default_initializable<typename A::State>;
  requires std::equality_comparable<typename A::Params>;
  { A::kName } -> std::convertible_to<std::string_view>;
  /// Takes `cost` units or refuses; with cost 0, peeks.
  { A::take(params, state, call) } -> std::same_as<Step<typename A::Change>>;
  /// Throws InvalidLimit where a number or a product of numbers cannot be held.
  { A::define(syntax) } -> std::same_as<typename A::Params>;
  /// True where a state written under these params means the same under others: a changed limit
  /// keeps its keys' state.
  { A::keeps_state(params, params) } -> std::same_as<bool>;
  /// The canonical expression, which define() reads back as equal params.
  { A::describe(params) } -> std::same_as<std::string>;
};

/// What is spent: units that come back with time. All but the limits of permits.
template <class A>
concept SpendingAlgorithm =
    Algorithm<A> && requires(const typename A::Params& params, const typename A::State& state,
                             const Call& call) {
      /// Gives `cost` units back, never beyond fresh, and answers as a peek would afterwards.
      { A::refund(params, state, call) } -> std::same_as<Step<typename A::Change>>;
      /// Takes `cost` units whatever there is, and answers as a peek would afterwards. What counts
      /// then may be more than the limit, and is at most what a number can hold.
      { A::charge(params, state, call) } -> std::same_as<Step<typename A::Change>>;
    };

/// What is lent: permits that are given back, or lapse.
template <class A>
concept LendingAlgorithm =
    Algorithm<A> && requires(const typename A::Params& params, const typename A::State& state,
                             const Call& call) {
      /// For the permit `call.permit`; denied, with kNever, where it is not held.
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

/// The transition of an operation; of those that have none (kBlock, kReset), and of those that are
/// not this algorithm's, a peek. kTakeUpTo is kTake with the cost that remains.
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
