#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "core/store.h"
#include "waiting/limit_binding.h"
#include "waiting/timer_thread.h"

namespace sluice {

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
/// the same: reclaims it (see returns.h), and the request has another name for the next time. Under
/// the same name the store would count two, if it gives this one late and is asked again.
void reclaim_unanswered(AcquireRequest& request, const AcquireOutcome& outcome,
                        std::shared_ptr<TimerThread> timer = nullptr);

/// Whether a caller that was denied has a chance within its timeout: not of a bucket, which has
/// said how long it would take, and that that is too long.
bool can_wait(const AcquireRequest& request, const AcquireOutcome& denied,
              TimerThread::TimePoint now);

}  // namespace sluice
