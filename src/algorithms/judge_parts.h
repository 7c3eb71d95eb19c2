#pragma once

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/algorithm.h"
#include "core/batch.h"
#include "core/block.h"
#include "core/limit_syntax.h"
#include "core/together.h"

namespace sluice {

/// How a store decides a request on one key by the parts of its limit, all or none. Below, `judge`
/// is called with a part's index, an operation and its call; it returns the decision that the
/// part's transition makes of the key's state, or a struct with that `decision` and what else the
/// store keeps of it, and changes nothing.

/// The decision in what `judge` returned.
template <class Judged>
auto& decision_in(Judged& judged) {
  if constexpr (std::is_same_v<std::remove_const_t<Judged>, Decision>) {
    return judged;
  } else {
    return (judged.decision);
  }
}

/// The call of a request's transition. If it takes as much as there is, the store sets the cost to
/// what units_left() says, or to 1 if none are left: then it is denied.
inline Call call_of(const Request& request, Instant now) {
  const bool up_to = request.operation == Operation::kTakeUpTo;
  return {.now = now,
          .cost = request.cost,
          .patience_ns = up_to ? kDefaultPatience : request.patience_ns,
          .unspent_only = up_to,
          .permit = request.permit};
}

/// The same call, as it is to one of the parts: one of `uncounted_parts` gets nothing back.
inline Call call_of_part(Call call, std::uint8_t uncounted_parts, std::size_t part) {
  if ((uncounted_parts >> part & 1U) != 0) call.cost = 0;
  return call;
}

/// As many units as every part has left, at most the call's cost, whether the key is blocked or
/// not.
template <class Judge>
std::int64_t units_left(std::size_t parts, const Call& call, Judge judge) {
  std::int64_t least = call.cost;
  for (std::size_t i = 0; i < parts; ++i) {
    const auto peek = judge(i, Operation::kTake, Call{.now = call.now, .cost = 0});
    least = std::min(least, decision_in(peek).remaining);
  }
  return least;
}

/// What else is known when the parts are judged.
struct JudgedTogether {
  Instant blocked_until = 0;         ///< When the key's block ends; 0 if it has none.
  bool others_admit = true;          ///< False if another key denies what is asked together.
  std::uint8_t uncounted_parts = 0;  ///< Of the request.
};

/// Judges each of the parts, as Request::parts describes it.
template <class Judged, class Judge>
void judge_parts(std::span<Judged> parts, Operation operation, const Call& call,
                 const JudgedTogether& known, Judge judge) {
  const bool is_blocked = call.now < known.blocked_until;
  const bool is_denied = is_blocked && can_be_denied(operation, call.cost);
  bool allowed = known.others_admit && !is_denied;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = judge(i, operation, call_of_part(call, known.uncounted_parts, i));
    allowed = allowed && decision_in(parts[i]).allowed;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Decision& one = decision_in(parts[i]);
    // Nothing is charged: the parts that allow it answer as to a peek.
    if (!allowed && one.allowed) {
      parts[i] = judge(i, Operation::kTake, Call{.now = call.now, .cost = 0});
    }
    if (is_blocked) one = block_decision(one, is_denied, call.now, known.blocked_until);
  }
}

using PartDecisions = boost::container::static_vector<Decision, kMaxParts>;

/// The decision of the whole: see Together. REQUIRES: there is one.
template <class AllJudged>
Decision combined(const AllJudged& parts) {
  if (parts.size() == 1) return decision_in(parts[0]);
  Together all;
  for (const auto& one : parts) all.add(decision_in(one));
  return all.decision();
}

}  // namespace sluice
