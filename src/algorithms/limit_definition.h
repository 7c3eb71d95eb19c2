#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "algorithms/concurrency/concurrency.h"
#include "algorithms/fixed_window/fixed_window.h"
#include "algorithms/leaky_bucket/leaky_bucket.h"
#include "algorithms/sliding_counter/sliding_counter.h"
#include "algorithms/sliding_log/sliding_log.h"
#include "algorithms/sliding_window/sliding_window.h"
#include "algorithms/token_bucket/token_bucket.h"

namespace sluice {

/// The table of algorithms. A new one is its folder and one row here.
template <template <class...> class Apply>
using WithAlgorithms = Apply<TokenBucket, LeakyBucket, FixedWindow, SlidingLog, SlidingWindow,
                             SlidingCounter, Concurrency>;

/// One algorithm with its numbers. Distinct types per algorithm, so that a store can dispatch on it
/// without knowing any of them.
template <class A>
struct Part {
  using Algorithm = A;
  typename A::Params params;

  friend bool operator==(const Part&, const Part&) = default;
};

template <class... As>
using PartOf = std::variant<Part<As>...>;
using AnyPart = WithAlgorithms<PartOf>;

/// What a Limit holds: where its keys live, how it is written, and what has to admit.
struct LimitDefinition {
  std::string space;
  std::string expression;
  /// At least one; more than one where the expression joins limits by `&`.
  std::vector<AnyPart> parts;
  /// Keys of this space may meet other numbers at each call, as CL.THROTTLE's do: a store remembers
  /// a key's last ones where they differ from these. Only where there is one part.
  bool varies = false;
};

/// Whether what it allows is lent and given back, and not spent.
inline bool lends(const LimitDefinition& limit) {
  return std::visit([]<class P>(const P&) { return LendingAlgorithm<typename P::Algorithm>; },
                    limit.parts[0]);
}

/// The space of CL.THROTTLE, whose keys may meet other numbers at each call. No limit can be given
/// this name.
inline constexpr std::string_view kThrottleSpace = "cl";

/// True where keys keep their state when these parts give way to those: the same algorithms in the
/// same places, each of which keeps its state.
bool keeps_state(const std::vector<AnyPart>& from, const std::vector<AnyPart>& to);

/// Reads an expression into its parts. Throws InvalidLimit.
std::vector<AnyPart> parse_parts(std::string_view expression);

/// The canonical expression of these parts.
std::string describe_parts(const std::vector<AnyPart>& parts);

}  // namespace sluice
