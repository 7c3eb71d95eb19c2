#pragma once

#include <boost/container/small_vector.hpp>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "algorithms/counted_for.h"
#include "core/store.h"
#include "waiting/limit_binding.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// A random permit id, never 0. It comes from the operating system, so it cannot be predicted from
/// other ids. Aborts if the system has no random numbers. Thread-safe.
PermitId new_permit_id();

/// A limit and key that a caller wants to take from.
struct AcquireClaim {
  std::shared_ptr<const LimitBinding> binding;
  std::string key;
  std::int64_t cost = 1;
};

/// What a caller wants to acquire, and how long it waits for it.
struct AcquireRequest {
  AcquireRequest(AcquireClaim claim, TimerQueue::TimePoint waits_until, PermitId id = 0)
      : permit(id), until(waits_until) {
    claims.push_back(std::move(claim));
  }

  /// The claim in whose queue the caller waits.
  const AcquireClaim& claim() const { return claims[waits_for]; }
  bool is_for_permit() const { return permit != 0; }

  /// At least one. Of several, all are taken or none; none of them is then for a permit.
  boost::container::small_vector<AcquireClaim, 1> claims;
  std::size_t waits_for = 0;
  /// The id of the permit to acquire; 0 if the limit is not one of permits. It is replaced by a new
  /// id if the store may have granted it without an answer: see ask_now().
  PermitId permit;
  /// The end of the timeout.
  TimerQueue::TimePoint until;
  /// How old a denial may be that is repeated without asking the store.
  std::chrono::nanoseconds most_denial_age = std::chrono::nanoseconds::max();
};

/// The result of an AcquireRequest.
struct AcquireOutcome {
  /// Of one claim.
  struct OfClaim {
    /// Under which limit of its binding it was asked last. It stays valid as long as the binding.
    const BoundLimit* bound = nullptr;
    /// If it was granted: by whom, and for how long its units count.
    Source giver = Source::kStore;
    CountedFor counted_for = {};
  };

  Decision decision = {};
  /// If it is not null, the decision has no meaning.
  std::exception_ptr error = nullptr;
  /// The id with which the store was asked last; 0 if the limit is not one of permits.
  PermitId permit = 0;
  /// When the store was asked last.
  TimerQueue::TimePoint asked_at = {};
  /// One for each claim of the request; empty if the store was not asked.
  boost::container::small_vector<OfClaim, 1> claims = {};
  /// WaitingCallers::wakings() before the store was asked last.
  std::uint64_t wakings = 0;

  bool is_granted() const { return error == nullptr && decision.allowed; }
  /// Whether units were granted that come later.
  bool is_reserved() const { return is_granted() && decision.delay > std::chrono::nanoseconds(0); }
  /// Of the claim that binds. REQUIRES: the store was asked.
  const BoundLimit& bound() const {
    const std::size_t claim = claims.size() == 1 ? 0 : decision.binding;
    assert(claim < claims.size());
    return *claims[claim].bound;
  }
};

/// What was taken of one claim, units or a permit: all that is needed to give it back.
struct Taken {
  /// The limit by which units are settled: the one that granted them or, if set_limit() has made
  /// the keys fresh since, and so has forgotten them, the present one.
  const BoundLimit& settled_by() const;

  AcquireClaim claim;
  AcquireOutcome::OfClaim granted;
  PermitId permit = 0;
  TimerQueue::TimePoint asked_at;
  std::uint64_t wakings = 0;  ///< As AcquireOutcome::wakings.
};

/// What a request that was granted has taken of its i-th claim, which is `claim`.
Taken taken(AcquireClaim claim, const AcquireOutcome& granted, std::size_t i);

/// The store's last denial, and when it was given.
struct LastDenial {
  /// Decision::binding of a list of claims is an index into the asking caller's list, which means
  /// nothing to others: it is stored as 0, and the one who is told sets its own.
  LastDenial(const AcquireRequest& request, const Decision& denied, TimerQueue::TimePoint when)
      : decision(denied), at(when) {
    if (request.claims.size() > 1) decision.binding = 0;
  }

  Decision decision;
  TimerQueue::TimePoint at;
};

/// The retry_after of a denial if no better value is known.
inline constexpr std::chrono::milliseconds kSoon{5};

/// AcquireRequest::most_denial_age of a caller that waits already.
inline constexpr std::chrono::milliseconds kMostDenialAge{100};

/// Asks the store under the present limits, and waits for its answer. An exception becomes
/// AcquireOutcome::error. For units, the rest of the timeout is the longest delay that the store
/// may reserve for; permits cannot be reserved. If the store may have granted a permit without an
/// answer (kTakenUnknown), this calls reclaim(), and gives the request a new permit id for its next
/// attempt. With the same id, the store would count two permits if it granted the first one late
/// and was then asked again.
AcquireOutcome ask_now(AcquireRequest& request, TimerQueue::TimePoint now);

/// The same without waiting, and without reclaim(): `then` is called once, within this call or on
/// the store's worker thread. It holds shares of the bindings.
void ask_async(const AcquireRequest& request, TimerQueue::TimePoint now,
               std::function<void(const AcquireOutcome&)> then);

/// As ask_now(), without waiting: `then` is called on the timer thread. REQUIRES: the request
/// exists until then.
void ask_later(AcquireRequest& request, const std::shared_ptr<TimerQueue>& timer,
               std::function<void(const AcquireOutcome&)> then);

/// Whether the limit can ever admit the cost of each claim.
bool can_be_admitted(const AcquireRequest& request);

/// Whether a denied caller may be admitted within its timeout, as far as the binding part or claim
/// says. False for a token bucket, whose denial says already that the wait would exceed the
/// timeout, and for buckets alone: no caller waits for a place in the queue of a leaky bucket. A
/// denial by the failure policy says nothing of the limit: the store may answer the next time.
bool can_wait(const AcquireRequest& request, const AcquireOutcome& denied,
              TimerQueue::TimePoint now);

}  // namespace sluice
