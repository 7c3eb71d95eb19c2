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

class ConcurrencyLimiter::Impl final : public LimiterCore {
 public:
  Impl(std::shared_ptr<Store> store, Limit limit)
      : LimiterCore(std::move(store), std::move(limit), LimitBinding::Kind::kPermits),
        leases_(std::make_shared<LeaseKeeper>(binding())) {}

  TimePoint end_of(nanoseconds patience) const { return TimerQueue::later(now(), patience); }

  /// A request for a permit with a new id. `until` is the end of the caller's timeout.
  AcquireRequest request(std::string_view key, TimePoint until) const {
    return {claim(key, 1), until, new_permit_id()};
  }

  Permit permit(std::string key, const AcquireOutcome& outcome) const {
    Permit made;
    const Decision& decision = made.decision_ = outcome.decision;
    if (!decision.allowed) return made;
    if (leases_->is_shared() && decision.remaining == 0 && decision.source == Source::kStore) {
      queues().fairness().granted(key, outcome.asked_at);
    }
    made.lease_ = leases_->hold(std::move(key), outcome);
    return made;
  }

  /// Whether callers of this process wait for a permit of the key, under this limit.
  bool has_waiting(std::string_view key) const { return !queues().is_empty(key, bound().limit); }

  /// Not granted, as others wait for it; `peeked` is the state of the key.
  static Permit behind_others(const Decision& peeked) {
    Permit made;
    made.decision_ = peeked;
    made.decision_.allowed = false;
    made.decision_.retry_after = std::max<nanoseconds>(kSoon, made.decision_.reset_after);
    return made;
  }

 private:
  const std::shared_ptr<LeaseKeeper> leases_;
};

ConcurrencyLimiter::ConcurrencyLimiter(std::shared_ptr<Store> store, Limit limit)
    : impl_(std::make_shared<Impl>(std::move(store), std::move(limit))) {}

ConcurrencyLimiter::~ConcurrencyLimiter() = default;
ConcurrencyLimiter::ConcurrencyLimiter(ConcurrencyLimiter&&) noexcept = default;
ConcurrencyLimiter& ConcurrencyLimiter::operator=(ConcurrencyLimiter&&) noexcept = default;

Permit ConcurrencyLimiter::try_acquire(std::string_view key) {
  if (impl_->has_waiting(key)) return Impl::behind_others(peek(key));
  const TimePoint now = impl_->now();
  AcquireRequest request = impl_->request(key, now);
  const AcquireOutcome outcome = ask_now(request, now);
  if (outcome.error) std::rethrow_exception(outcome.error);
  return impl_->permit(std::move(request.claims.front().key), outcome);
}

Permit ConcurrencyLimiter::acquire(std::string_view key, nanoseconds patience,
                                   std::stop_token stop) {
  require_patience(patience);
  if (patience == nanoseconds(0) && !stop.stop_requested()) return try_acquire(key);
  AcquireRequest request = impl_->request(key, impl_->end_of(patience));
  return impl_->permit(std::string(key),
                       WaitQueues::acquire_blocking(std::move(request), std::nullopt, stop));
}

void ConcurrencyLimiter::async_acquire(std::string_view key, nanoseconds patience,
                                       PermitCallback callback, std::stop_token stop) {
  std::optional<AcquireRequest> request;
  auto error = error_in([&] {
    require_patience(patience);
    request.emplace(impl_->request(key, impl_->end_of(patience)));
  });
  if (error) return callback({}, std::move(error));
  if (patience == nanoseconds(0) && !stop.stop_requested() && impl_->has_waiting(key)) {
    const auto give_none = [callback = std::move(callback)](const Decision& peeked,
                                                            std::exception_ptr thrown) {
      if (thrown) return callback({}, std::move(thrown));
      callback(Impl::behind_others(peeked), nullptr);
    };
    return async_peek(key, give_none);
  }
  const auto give = [impl = impl_, key = std::string(key),
                     callback = std::move(callback)](const AcquireOutcome& outcome) {
    callback(outcome.error ? Permit() : impl->permit(key, outcome), outcome.error);
  };
  WaitQueues::acquire(*std::move(request), stop, give);
}

Decision ConcurrencyLimiter::peek(std::string_view key) {
  return impl_->ask(Operation::kTake, key, 0);
}

Decision ConcurrencyLimiter::block(std::string_view key, nanoseconds duration) {
  return impl_->ask(Operation::kBlock, key, duration.count());
}

void ConcurrencyLimiter::reset(std::string_view key) {
  impl_->reset(key);
}

void ConcurrencyLimiter::async_peek(std::string_view key, DecisionCallback callback) {
  impl_->async_ask(Operation::kTake, key, 0, std::move(callback));
}

void ConcurrencyLimiter::async_block(std::string_view key, nanoseconds duration,
                                     DecisionCallback callback) {
  impl_->async_ask(Operation::kBlock, key, duration.count(), std::move(callback));
}

void ConcurrencyLimiter::async_reset(std::string_view key, DoneCallback callback) {
  impl_->async_reset(key, std::move(callback));
}

void ConcurrencyLimiter::set_limit(Limit limit) {
  impl_->set_limit(std::move(limit));
}

const Limit& ConcurrencyLimiter::limit() const {
  return impl_->bound().limit;
}

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
