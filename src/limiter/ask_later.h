#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/store.h"
#include "limiter/bound_limit.h"
#include "sluice/limiter.h"

namespace sluice {

/// Asks one question and does not wait: `answered` is called once, before this returns where the
/// store answers at once. It is given the decision, or what decide() would have thrown. The key is
/// copied, and the limit and its space are held until then; the store is not, which answers what
/// is under way when it goes. REQUIRES: the request is about `bound`.
void ask_later(Store& store, const BoundLimit& bound, const Request& request,
               DecisionCallback answered);

/// Several that are asked at once.
struct Questions {
  /// At least one.
  std::span<const Request> requests;
  /// What they are about.
  std::vector<BoundLimit> bounds;
  /// All or nothing, as decide_all(): there is one decision.
  bool together = false;
};

/// The same for several.
void ask_later(Store& store, Questions questions, BatchCallback answered);

/// A callback for what gives units of the key back: if it has, it first wakes who waits for them
/// here. `bound` lives until it is called.
DecisionCallback then_wake(const BoundLimit& bound, std::string_view key, DecisionCallback told);

}  // namespace sluice
