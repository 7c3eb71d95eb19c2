#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "algorithms/bucket.h"
#include "algorithms/concurrency/concurrency.h"
#include "algorithms/fixed_window/fixed_window.h"
#include "algorithms/leaky_bucket/leaky_bucket.h"
#include "algorithms/sliding_counter/sliding_counter.h"
#include "algorithms/sliding_log/sliding_log.h"
#include "algorithms/sliding_window/sliding_window.h"
#include "algorithms/token_bucket/token_bucket.h"
#include "core/algorithm.h"

namespace sluice {

/// The table of algorithms. A new algorithm is a folder and one row here; CONTRIBUTING.md
/// lists the rest.
template <template <class...> class Apply>
using WithAlgorithms = Apply<TokenBucket, LeakyBucket, FixedWindow, SlidingLog, SlidingWindow,
                             SlidingCounter, Concurrency>;

/// One algorithm with its numbers. Each algorithm has its own type, so that a store can dispatch on
/// it without naming algorithms.
template <class A>
struct Part {
  using Algorithm = A;
  typename A::Params params;

  friend bool operator==(const Part&, const Part&) = default;
};

template <class... As>
using PartOf = std::variant<Part<As>...>;
using AnyPart = WithAlgorithms<PartOf>;

/// A parsed Limit: the space of its keys, its expression, and the parts that must all admit.
struct LimitDefinition {
  std::string space;
  std::string expression;
  /// At least one; more than one if the expression joins limits with `&`.
  std::vector<AnyPart> parts;
  /// Keys may have other numbers than these: a store remembers those by which a key was asked last.
  bool varies = false;

  /// Whether the space has a name of its own; otherwise it is that of the expression.
  bool is_named() const { return space != expression; }
};

/// Whether the limit lends permits, that is, is a `concurrency` limit.
inline bool lends(const LimitDefinition& limit) {
  return std::visit([]<class P>(const P&) { return LendingAlgorithm<typename P::Algorithm>; },
                    limit.parts[0]);
}

// What the table does not say of an algorithm, and other modules need to know.

/// Whether the part is a bucket, which can reserve units that are yet to return.
inline bool is_bucket(const AnyPart& part) {
  return std::visit(
      []<class P>(const P&) { return std::is_same_v<typename P::Algorithm::State, BucketState>; },
      part);
}

/// Whether the part admits a request for more units than it ever holds (borrow=yes).
inline bool borrows(const AnyPart& part) {
  const auto* const bucket = std::get_if<Part<TokenBucket>>(&part);
  return bucket != nullptr && bucket->params.borrow;
}

/// Whether check() may admit a request with a delay.
inline bool delays(const AnyPart& part) {
  return std::holds_alternative<Part<LeakyBucket>>(part);
}

/// Whether a denial says that the wait would exceed the patience. As both get shorter at the same
/// rate, asking again within the patience is of no use.
inline bool is_denial_final(const AnyPart& part) {
  return std::holds_alternative<Part<TokenBucket>>(part);
}

/// Whether the part's windows begin with the first unit that is taken, not at fixed instants.
inline bool starts_with_first(const AnyPart& part) {
  const auto* const window = std::get_if<Part<FixedWindow>>(&part);
  return window != nullptr && window->params.first;
}

/// The most that a key may have used, in units or (of a bucket) in nanoseconds, without denying a
/// unit.
template <class A>
std::int64_t most_used(const typename A::Params& params) {
  if constexpr (requires { A::most_used(params); }) {
    return A::most_used(params);
  } else {
    return params.limit - 1;
  }
}

/// At least the most_used() of any numbers.
template <class A>
constexpr std::int64_t largest_used() {
  if constexpr (std::is_same_v<typename A::State, BucketState>) {
    return kMaxDurationNs - 1;
  } else if constexpr (requires { A::kMaxLimit; }) {
    return A::kMaxLimit - 1;
  } else {
    return kMaxCount - 1;
  }
}

/// Numbers of the same state_kind() with `used` as most_used(). A key that denies a unit by any
/// numbers of this kind with as much or more also denies it by these.
template <class A>
typename A::Params with_most_used(typename A::Params params, std::int64_t used) {
  if constexpr (requires { A::with_most_used(params, used); }) {
    return A::with_most_used(params, used);
  } else {
    params.limit = used + 1;
    return params;
  }
}

/// The numbers of one part.
LimitNumbers numbers_of(const AnyPart& part);

/// The space of CL.THROTTLE, each call of which names its numbers. No limit can have this name.
inline constexpr std::string_view kThrottleSpace = "cl";

/// The kind of the states of a limit with these parts: "token_bucket & fixed_window 1m".
std::string state_kind(const std::vector<AnyPart>& parts);

/// True if keys keep their states when a limit with the parts `from` is replaced by one with the
/// parts `to`: their states are of the same kind.
bool keeps_state(const std::vector<AnyPart>& from, const std::vector<AnyPart>& to);

/// Whether an expression may begin with this name.
bool is_algorithm(std::string_view name);

/// Parses an expression into its parts. Throws InvalidLimit.
std::vector<AnyPart> parse_parts(std::string_view expression);

/// The canonical expression of these parts.
std::string describe_parts(const std::vector<AnyPart>& parts);

}  // namespace sluice
