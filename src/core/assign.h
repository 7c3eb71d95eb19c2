#pragma once

#include "sluice/decision.h"

namespace sluice {

/// Copied field by field, a decision stays in registers from where it is worked out to where it is
/// wanted. Copied whole, it is put together in memory and read back in wider pieces, for which the
/// processor waits.
inline void assign(Decision& to, const Decision& from) {
  to.allowed = from.allowed;
  to.source = from.source;
  to.limit = from.limit;
  to.remaining = from.remaining;
  to.retry_after = from.retry_after;
  to.reset_after = from.reset_after;
  to.delay = from.delay;
  to.taken = from.taken;
}

}  // namespace sluice
