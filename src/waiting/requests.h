#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/store.h"
#include "waiting/limit_binding.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// A random permit id, never 0, each time another one. Thread-safe.
PermitId new_permit_id();

/// What a caller wants to take, and how long it waits for it.
struct AcquireRequest {
  std::shared_ptr<const LimitBinding> binding;
  std::string key;
  std::int64_t cost = 1;
  /// Of a limit of permits: the name under which it takes one. The next time another, where the
  /// store may have given it and did not say so.
  PermitId permit = 0;
  /// The end of the timeout.
  TimerThread::TimePoint until = TimerThread::kEndOfTime;

  bool is_for_permit() const { return permit != 0; }
};

/// What became of it.
struct AcquireOutcome {
  Decision decision = {};
  /// Where it is not null, the decision means nothing.
  std::exception_ptr error = nullptr;
  /// Of a limit of permits: the name under which the store was asked last.
  PermitId permit = 0;
  /// When the store was asked last, and by which limit, which lives as long as the binding.
  TimerThread::TimePoint asked = {};
  const BoundLimit* bound = nullptr;

  bool is_granted() const { return error == nullptr && decision.allowed; }
};

/// A decision's retry_after where nothing is known.
inline constexpr std::chrono::milliseconds kSoon{5};

/// What the store is to be asked now, by the limit `bound`: what is left of the timeout goes with
/// units that are reserved; permits are not.
Request request_for(const AcquireRequest& request, const BoundLimit& bound,
                    TimerThread::TimePoint now);

/// Asks the store, and waits for its answer. An error is part of the outcome.
AcquireOutcome ask_now(AcquireRequest& request, TimerThread::TimePoint now);

/// To be called with each outcome. Where the store did not answer, it may have given the permit all
/// the same: reclaims it, and the request has another name for the next time. Under the same name
/// the store would count two, if it gives this one late and is asked again.
void reclaim_unanswered(AcquireRequest& request, const AcquireOutcome& outcome,
                        std::shared_ptr<TimerThread> timer = nullptr);

/// Whether a caller that was denied has a chance within its timeout: not of a bucket, which has
/// said how long it would take, and that that is too long.
bool can_wait(const AcquireRequest& request, const AcquireOutcome& denied,
              TimerThread::TimePoint now);

// What callers return to a store without waiting for it. `bound` is one of the binding's limits;
// `timer` is the process's where it is null. A process that ends waits up to a second for what is
// still under way, so that what was returned at its end is. Thread-safe.

/// Refunds units or releases a permit, once: what the store does not answer is lost, a permit until
/// its lease ends, units until they come back by themselves. `then` is called when it has answered,
/// or has not: before this returns, of a store that answers at once, else on the timer thread.
void return_later(const std::shared_ptr<const LimitBinding>& binding, const BoundLimit& bound,
                  const Request& request, std::function<void()> then,
                  std::shared_ptr<TimerThread> timer);

/// The same on the calling thread, which waits for the answer.
void return_and_wait(const LimitBinding& binding, const Request& request);

/// Releases a permit of which it is not known whether the store gave it. Else the store, which may
/// be late and not lost, would count it for a whole lease. As long as a store elsewhere does not
/// answer, and the binding lives, it is asked again, up to a second later each time, until a lease
/// is over.
///
/// No waiting caller is told: it would ask at once, of a store that does not answer perhaps, and
/// leave another permit to reclaim. At most kMostReclaimed are asked for again, of a process, and
/// kMostReclaimedOfOne of one limit, so that none takes the places of all others; what is beyond is
/// lost as above. A child of fork() counts its own alone.
void reclaim(const std::shared_ptr<const LimitBinding>& binding, const BoundLimit& bound,
             std::string_view key, PermitId permit, std::shared_ptr<TimerThread> timer = nullptr);

inline constexpr std::size_t kMostReclaimed = 1'000;
inline constexpr std::size_t kMostReclaimedOfOne = kMostReclaimed / 10;

}  // namespace sluice
