#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "core/store.h"
#include "waiting/limit_binding.h"
#include "waiting/timer_thread.h"

namespace sluice {

// Functions that return units or permits to a store. If `timer` is null, it is
// TimerThread::shared(). At its exit the process waits up to a second in all for returns that are
// in flight, those of static objects, too. Thread-safe.

/// Receives the answer to a refund or a release. If the giver has not answered, its source is not
/// Request::giver, but that of the failure policy, or kUnavailable.
using Returned = std::function<void(const Decision&)>;

/// Sends a refund or a release, by one of the binding's limits, without waiting; but waits for the
/// answer to a refund if the system cannot start the timer thread. (A process with permits has
/// started it.) `then` is called once, with the answer, or with that of the failure policy if the
/// store gives none: within this call if it is known by then, otherwise on the timer thread.
///
/// If the store does not answer, the units count until they return with time, and a release of a
/// permit that the store granted is sent again, as reclaim() says.
void return_later(const std::shared_ptr<const LimitBinding>& binding, const Request& request,
                  Returned then, std::shared_ptr<TimerQueue> timer);

/// Sends a refund or a release to the store once, waits for the answer, and returns it.
Decision return_and_wait(Store& store, const Request& request);

/// Releases a permit that the store may have granted without an answer (kTakenUnknown): a store
/// that was only late would count it for a whole lease. If the store does not answer the release
/// either, it is sent again, after pauses that grow to a second, until the lease would have ended.
/// It is not sent again once the caller has let go of the store or of `bound`, as when a limiter is
/// destroyed.
///
/// Never waits: without a timer thread, nothing is sent. Does not wake waiting callers: they would
/// ask at once a store that perhaps still does not answer, and leave further permits to reclaim. A
/// process sends at most kMostReclaimed such releases again; a permit beyond that counts until its
/// lease ends. A child of fork() starts its own count.
void reclaim(const std::shared_ptr<Store>& store, const std::shared_ptr<const BoundLimit>& bound,
             std::string_view key, PermitId permit, std::shared_ptr<TimerQueue> timer = nullptr);

inline constexpr std::size_t kMostReclaimed = 1'000;

}  // namespace sluice
