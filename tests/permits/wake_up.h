#pragma once

#include <chrono>

#include "sluice/sluice.h"

namespace sluice::permits {

/// The delays of some rounds.
struct Delays {
  std::chrono::nanoseconds least;
  std::chrono::nanoseconds median;
};

/// How long after the release of a permit a waiting caller of this process gets it. Each permit is
/// held for `job` before.
Delays wake_up_by_release(ConcurrencyLimiter& jobs, int rounds, std::chrono::nanoseconds job);

/// How long after a refund a waiting caller of this process gets the unit. In every other round the
/// refund comes while the caller is being denied and joins the queue. The limit must be 1 in a long
/// window.
Delays wake_up_by_refund(Limiter& limiter, int rounds);

}  // namespace sluice::permits
