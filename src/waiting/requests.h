#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.h"
#include "waiting/limit_binding.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// A random permit id, never 0. It comes from the operating system, so it cannot be predicted from
/// other ids. Throws std::system_error if the system has no random numbers. Thread-safe.
PermitId new_permit_id();

/// Another limit that a caller wants to take from in the same step.
struct AcquireClaim {
  std::shared_ptr<const LimitBinding> binding;
  std::string key;
  std::int64_t cost = 1;
};

/// What a caller wants to acquire, and how long it waits for it.
struct AcquireRequest {
  std::shared_ptr<const LimitBinding> binding;
  std::string key;
  std::int64_t cost = 1;
  /// The id of the permit to acquire; 0 if the limit is not one of permits. It is replaced by a new
  /// id if the store did not answer: see reclaim_unanswered().
  PermitId permit = 0;
  /// The end of the timeout.
  TimerThread::TimePoint until = TimerThread::kEndOfTime;
  /// If the caller takes from several limits, all or nothing: all of them, in order. The members
  /// above are those of claims[waits_for], in whose queue the caller waits.
  std::vector<AcquireClaim> claims = {};
  std::size_t waits_for = 0;

  bool is_for_permit() const { return permit != 0; }
};

/// The result of an AcquireRequest.
struct AcquireOutcome {
  Decision decision = {};
  /// If it is not null, the decision has no meaning.
  std::exception_ptr error = nullptr;
  /// The id with which the store was asked last; 0 if the limit is not one of permits.
  PermitId permit = 0;
  /// When the store was asked last, and under which limit of the binding, which stays valid as long
  /// as the binding.
  TimerThread::TimePoint asked = {};
  const BoundLimit* bound = nullptr;
  /// Sleepers::wakings() before the store was asked last.
  std::uint64_t wakings = 0;
  /// For several limits: the bound limit of each claim.
  std::vector<const BoundLimit*> bounds = {};
  /// For several limits: a claim other than claims[waits_for] has denied for longest.
  bool binds_elsewhere = false;

  bool is_granted() const { return error == nullptr && decision.allowed; }
};

/// The retry_after of a denial if no better value is known.
inline constexpr std::chrono::milliseconds kSoon{5};

/// A question for the store.
struct Question {
  /// The outcome without the answer: when the store is asked, and under which limits.
  AcquireOutcome outcome;
  std::vector<Request> requests = {};
  Batch::Mode mode = Batch::Mode::kEach;
};

/// The question to give to the store now, under the present limits. For units, the rest of the
/// timeout is the longest delay that the store may reserve for; permits cannot be reserved. Refers
/// to the request.
Question question_for(const AcquireRequest& request, TimerThread::TimePoint now);

/// Takes the answer to a question about this request into its outcome.
void take_decision(const AcquireRequest& request, const Decision& decision,
                   AcquireOutcome& outcome);

/// Returns what was granted to a caller that no longer wants it: refunds each claim, or releases
/// the permit. `returned` is called for each claim, as `then` of return_later().
void return_granted(const AcquireRequest& request, const AcquireOutcome& granted,
                    const std::function<void(Space&, std::string_view key)>& returned,
                    const std::shared_ptr<TimerThread>& timer);

/// Asks the store, and waits for its answer. An exception becomes AcquireOutcome::error.
AcquireOutcome ask_now(AcquireRequest& request, TimerThread::TimePoint now);

/// Must be called with each outcome. If the store did not answer, it may have granted the permit
/// nevertheless: then this calls reclaim(), and gives the request a new permit id for its next
/// attempt. With the same id, the store would count two permits if it granted the first one late
/// and was then asked again.
void reclaim_unanswered(AcquireRequest& request, const AcquireOutcome& outcome,
                        std::shared_ptr<TimerThread> timer = nullptr);

/// Whether a denied caller may be admitted within its timeout. False for a bucket, whose denial
/// says already that the wait would exceed the timeout.
bool can_wait(const AcquireRequest& request, const AcquireOutcome& denied,
              TimerThread::TimePoint now);

// Functions that return units or permits to a store. `bound` is one of the binding's limits; if
// `timer` is null, it is TimerThread::shared(). At its exit the process waits up to a second for
// returns that are in flight. Thread-safe.

/// Sends a refund or a release to the store, once, without waiting. If the store does not answer,
/// the permit counts until its lease ends, and the units until they return with time. `then` is
/// called afterwards in either case: within this call if the store answers at once, otherwise on
/// the timer thread.
void return_later(const std::shared_ptr<const LimitBinding>& binding, const BoundLimit& bound,
                  const Request& request, std::function<void()> then,
                  std::shared_ptr<TimerThread> timer);

/// The same on the calling thread, which waits for the answer.
void return_and_wait(const LimitBinding& binding, const Request& request);

/// Releases a permit if the store has granted it, which is not known because the store did not
/// answer the acquisition. (A store that was only late would otherwise count the permit for a whole
/// lease.) If the store does not answer the release either, it is sent again, after pauses that
/// grow to a second, until the lease would have ended or the binding is destroyed.
///
/// Does not wake waiting callers: they would ask at once a store that perhaps still does not
/// answer, and leave further permits to reclaim. A process sends at most kMostReclaimed such
/// releases again, at most kMostReclaimedOfOne of them for one limit; a permit beyond that counts
/// until its lease ends. A child of fork() starts its own count.
void reclaim(const std::shared_ptr<const LimitBinding>& binding, const BoundLimit& bound,
             std::string_view key, PermitId permit, std::shared_ptr<TimerThread> timer = nullptr);

inline constexpr std::size_t kMostReclaimed = 1'000;
inline constexpr std::size_t kMostReclaimedOfOne = kMostReclaimed / 10;

}  // namespace sluice
