#pragma once

#include <chrono>

#include "sluice/sluice.h"

namespace sluice::permits {

/// How long after a permit is given back one is granted to who waits for it in this process: the
/// median of the rounds. Each is held for `job` before.
std::chrono::nanoseconds wake_up_by_release(ConcurrencyLimiter& jobs, int rounds,
                                            std::chrono::nanoseconds job);

/// How long after a refund it is granted to who waits for it in this process: the median of the
/// rounds. In every other one it comes while they are denied and take their place in line. The
/// limit is 1 for a long time.
std::chrono::nanoseconds wake_up_by_refund(Limiter& limiter, int rounds);

}  // namespace sluice::permits
