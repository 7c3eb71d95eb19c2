#pragma once

#include <chrono>

#include "sluice/sluice.h"

namespace sluice::permits {

/// Of some rounds.
struct Delays {
  std::chrono::nanoseconds least;
  std::chrono::nanoseconds median;
};

/// How long after a permit is given back one is granted to who waits for it in this process. Each
/// is held for `job` before.
Delays wake_up_by_release(ConcurrencyLimiter& jobs, int rounds, std::chrono::nanoseconds job);

/// How long after a refund it is granted to who waits for it in this process. In every other round
/// it comes while they are denied and take their place in line. The limit is 1 for a long time.
Delays wake_up_by_refund(Limiter& limiter, int rounds);

}  // namespace sluice::permits
