#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "limiter/limiter_core.h"
#include "sluice/permit.h"
#include "waiting/lease_keeper.h"

namespace sluice {

using std::chrono::nanoseconds;
using TimePoint = TimerQueue::TimePoint;

namespace {

TimePoint end_of(nanoseconds patience, const LimiterCore& core) {
  return TimerQueue::later(core.now(), patience);
}

// A request for a permit with a new id. `until` is the end of the caller's timeout.
AcquireRequest request_of(const LimiterCore& core, std::string_view key, TimePoint until) {
  return {core.claim(key, 1), until, new_permit_id()};
}

// Whether callers of this process wait for a permit of the key, under this limit.
bool has_waiting(const LimiterCore& core, std::string_view key) {
  return !core.queues().is_empty(key, core.bound().limit);
}

// The decision that a caller does not get a permit, as others wait for one; `peeked` is the state
// of the key.
Decision behind_others(Decision peeked) {
  peeked.allowed = false;
  peeked.retry_after = std::max<nanoseconds>(kSoon, peeked.reset_after);
  return peeked;
}

// Renews the permit from now on, if one was granted. Else there is no lease.
std::shared_ptr<Lease> hold_granted(const LimiterCore& core, LeaseKeeper& leases, std::string key,
                                    const AcquireOutcome& outcome) {
  const Decision& decision = outcome.decision;
  if (!decision.allowed) return nullptr;
  if (leases.is_shared() && decision.remaining == 0 && decision.source == Source::kStore) {
    core.queues().fairness().granted(key, outcome.asked_at);
  }
  return leases.hold(std::move(key), outcome);
}

}  // namespace

ConcurrencyLimiter::ConcurrencyLimiter(std::shared_ptr<Store> store, Limit limit)
    : KeyedLimiter(std::make_shared<LimiterCore>(std::move(store), std::move(limit),
                                                 LimitBinding::Kind::kPermits)),
      leases_(std::make_shared<LeaseKeeper>(core_->binding())) {}

Permit ConcurrencyLimiter::try_acquire(std::string_view key) {
  if (has_waiting(*core_, key)) return {behind_others(peek(key)), nullptr};
  const TimePoint now = core_->now();
  AcquireRequest request = request_of(*core_, key, now);
  const AcquireOutcome outcome = ask_now(request, now);
  if (outcome.error) std::rethrow_exception(outcome.error);
  return {outcome.decision,
          hold_granted(*core_, *leases_, std::move(request.claims.front().key), outcome)};
}

Permit ConcurrencyLimiter::acquire(std::string_view key, nanoseconds patience,
                                   std::stop_token stop) {
  require_patience(patience);
  if (patience == nanoseconds(0) && !stop.stop_requested()) return try_acquire(key);
  const AcquireOutcome outcome =
      WaitQueues::acquire_blocking(request_of(*core_, key, end_of(patience, *core_)), stop);
  return {outcome.decision, hold_granted(*core_, *leases_, std::string(key), outcome)};
}

void ConcurrencyLimiter::async_acquire(std::string_view key, nanoseconds patience,
                                       PermitCallback callback, std::stop_token stop) {
  std::optional<AcquireRequest> request;
  auto error = error_in([&] {
    require_patience(patience);
    request.emplace(request_of(*core_, key, end_of(patience, *core_)));
  });
  if (error) return callback({}, std::move(error));
  if (patience == nanoseconds(0) && !stop.stop_requested() && has_waiting(*core_, key)) {
    const auto give_none = [callback = std::move(callback)](const Decision& peeked,
                                                            std::exception_ptr thrown) {
      if (thrown) return callback({}, std::move(thrown));
      callback({behind_others(peeked), nullptr}, nullptr);
    };
    return async_peek(key, give_none);
  }
  const auto give = [core = core_, leases = leases_, key = std::string(key),
                     callback = std::move(callback)](const AcquireOutcome& outcome) {
    if (outcome.error) return callback({}, outcome.error);
    callback({outcome.decision, hold_granted(*core, *leases, key, outcome)}, nullptr);
  };
  WaitQueues::acquire(*std::move(request), stop, give);
}

Permit::Permit(const Decision& decision, std::shared_ptr<Lease> lease)
    : decision_(decision), lease_(std::move(lease)) {}

Permit::Permit(Permit&& other) noexcept
    : decision_(std::exchange(other.decision_, {})), lease_(std::move(other.lease_)) {}

Permit& Permit::operator=(Permit&& other) noexcept {
  if (this == &other) return *this;
  release();
  decision_ = std::exchange(other.decision_, {});
  lease_ = std::move(other.lease_);
  return *this;
}

// Needs no share of its own: no callback can destroy the permit any more. One that is running may
// ask the permit whether it is held.
Permit::~Permit() {
  if (lease_) lease_->release();
}

bool Permit::held() const {
  return lease_ != nullptr && lease_->held();
}

// These hold a share of their own: a callback that is called at once or called off may destroy the
// permit.
void Permit::on_expiry(std::function<void()> callback) {
  if (const auto lease = lease_) lease->on_expiry(std::move(callback));
}

void Permit::release() {
  if (const auto lease = lease_) lease->release();
}

void Permit::ignore() {
  if (const auto lease = lease_) lease->ignore();
}

}  // namespace sluice
