#pragma once

#include "sluice/decision.h"

namespace sluice {

/// Copies a decision member by member, so that its members stay in registers. The compiler copies a
/// whole decision through memory and reads it back in wider pieces, for which the processor has to
/// wait.
inline void assign(Decision& to, const Decision& from) {
  to.allowed = from.allowed;
  to.source = from.source;
  to.binding = from.binding;
  to.ended = from.ended;
  to.would_deny = from.would_deny;
  to.limit = from.limit;
  to.remaining = from.remaining;
  to.retry_after = from.retry_after;
  to.reset_after = from.reset_after;
  to.delay = from.delay;
  to.taken = from.taken;
}

}  // namespace sluice
