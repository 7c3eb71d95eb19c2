#pragma once

#include <memory>
#include <optional>
#include <stop_token>

#include "sluice/decision.h"
#include "waiting/requests.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// Acquires units without blocking: `callback` is called once the caller may go ahead, which is
/// after the delay of a bucket, or is denied. While a caller waits for units that a bucket has
/// reserved, a reset of the key or another limit lets it begin again, and a block denies it; if
/// another process gives units back, it may go ahead early. Throws nothing: the callback receives
/// the exception.
void acquire_later(AcquireRequest request, const std::stop_token& stop, DecisionCallback callback);

/// The same, but blocks the calling thread. `asked` is the outcome, if the caller has just asked
/// the store. Throws StoreError; std::system_error if the system cannot start the timer thread:
/// then it has taken nothing.
Decision acquire(AcquireRequest request, std::optional<AcquireOutcome> asked,
                 const std::stop_token& stop);

/// Blocks the calling thread until `ready`, and returns true; false if `stop` is requested before.
bool sleep_until(const std::shared_ptr<TimerQueue>& timer, TimerQueue::TimePoint ready,
                 const std::stop_token& stop);

}  // namespace sluice
