#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>

#include "core/instant.h"
#include "core/operation.h"
#include "sluice/decision.h"

namespace sluice {

/// Whether the request may be denied, and counts as a decision: a kTake or kTakeUpTo of at least
/// one unit. (A charge takes units, too, but neither a limit nor a block denies it.)
constexpr bool can_be_denied(Operation operation, std::int64_t cost) {
  return cost > 0 && (operation == Operation::kTake || operation == Operation::kTakeUpTo);
}

/// The decision of a limit, or of one part of an `&`, for a blocked key. `decision` is that without
/// the block; for a take that would be admitted, it is that of a peek. REQUIRES: now < until.
inline Decision block_decision(Decision decision, bool is_take, Instant now, Instant until) {
  assert(now < until);
  const std::chrono::nanoseconds left(until - now);
  decision.remaining = 0;
  decision.reset_after = std::max(decision.reset_after, left);
  if (!is_take) return decision;
  decision.allowed = false;
  decision.retry_after = std::max(decision.retry_after, left);
  return decision;
}

/// The end of the key's block after a request for a block of `duration_ns`, at most kLastEnd.
/// `until` is the end of its present block, or 0.
inline Instant block_until(Instant until, Instant now, std::int64_t duration_ns) {
  return std::max(until, now + duration_ns);
}

}  // namespace sluice
