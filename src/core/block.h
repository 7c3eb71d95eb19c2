#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/instant.h"
#include "core/operation.h"
#include "sluice/decision.h"

namespace sluice {

/// Whether a block denies it: what takes something, and neither gives back nor charges.
constexpr bool takes(Operation operation, std::int64_t cost) {
  return cost > 0 && (operation == Operation::kTake || operation == Operation::kTakeUpTo);
}

/// What a blocked key answers. `decision` is what its limit (all parts of an `&` together) says:
/// where it takes and would be admitted, that of a peek. REQUIRES: now < until.
inline Decision block_decision(Decision decision, bool takes, Instant now, Instant until) {
  const std::chrono::nanoseconds left(until - now);
  decision.remaining = 0;
  decision.reset_after = std::max(decision.reset_after, left);
  if (!takes) return decision;
  decision.allowed = false;
  decision.retry_after = std::max(decision.retry_after, left);
  return decision;
}

/// The last instant at which a block can end.
inline constexpr Instant kLastBlock = kEndOfTime - 1 + kMaxDurationNs;

/// When a block that is asked for now ends, at most kLastBlock; `until` is the end of the one there
/// is, or 0.
inline Instant block_until(Instant until, Instant now, std::int64_t duration_ns) {
  return std::max(until, now + duration_ns);
}

}  // namespace sluice
