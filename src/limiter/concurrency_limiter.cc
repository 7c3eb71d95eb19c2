#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "limiter/argument_checks.h"
#include "limiter/permit_id.h"
#include "limiter/permit_keeper.h"
#include "limiter/waiting_lines.h"
#include "sluice/permit.h"

namespace sluice {

using std::chrono::nanoseconds;
using TimePoint = Timekeeper::TimePoint;

class ConcurrencyLimiter::Impl final : public PermitKeeper {
 public:
  using PermitKeeper::PermitKeeper;

  /// A wish for a permit under a new name.
  Wish wish(std::string_view key, TimePoint until) {
    prepare();
    return {.slot = shared_slot(),
            .key = std::string(key),
            .cost = 1,
            .permit = new_permit_id(),
            .until = until};
  }

  Permit permit(std::string_view key, const Outcome& outcome) {
    Permit made;
    const Decision& decision = made.decision_ = outcome.decision;
    if (!decision.allowed) return made;
    made.impl_ = hold(key, outcome);
    if (is_shared() && decision.remaining == 0 && decision.source == Source::kStore) {
      lines().turns().granted(key, outcome.asked);
    }
    return made;
  }

  /// Asks without a wish, whose key would be copied.
  Outcome ask(std::string_view key) {
    Outcome outcome{.permit = new_permit_id(), .bound = &slot().bound()};
    outcome.asked = is_shared() ? now() : asked_at(*outcome.bound);
    Request request = outcome.bound->request(key);
    request.permit = outcome.permit;
    try {
      outcome.decision = slot().ask(request);
    } catch (...) {
      outcome.error = std::current_exception();
    }
    if (outcome.is_unanswered()) {
      request.operation = Operation::kRelease;
      request.giver = Source::kUnanswered;
      give_back(*outcome.bound, request);
    }
    if (outcome.error) std::rethrow_exception(outcome.error);
    return outcome;
  }

  /// Not granted, as others wait for it.
  Permit behind_others(std::string_view key) {
    Permit made;
    made.decision_ = slot().peek(key);
    made.decision_.allowed = false;
    made.decision_.retry_after = std::max<nanoseconds>(kSoon, made.decision_.reset_after);
    return made;
  }

  /// Whether who has time must let others go first: those who wait here, or elsewhere.
  bool lets_others_first(std::string_view key, nanoseconds patience) {
    if (!lines().nobody_waits(key)) return true;
    if (!is_shared()) return false;
    const TimePoint rests_until = lines().turns().rests_until(key);
    const TimePoint now = this->now();
    return now < rests_until && rests_until < Timekeeper::later(now, patience);
  }
};

ConcurrencyLimiter::ConcurrencyLimiter(std::shared_ptr<Store> store, Limit limit)
    : impl_(std::make_shared<Impl>(std::move(store), std::move(limit))) {}

ConcurrencyLimiter::~ConcurrencyLimiter() {
  if (impl_) impl_->outlive_limiter();
}

ConcurrencyLimiter::ConcurrencyLimiter(ConcurrencyLimiter&&) noexcept = default;

ConcurrencyLimiter& ConcurrencyLimiter::operator=(ConcurrencyLimiter&& other) noexcept {
  if (this == &other) return *this;
  const ConcurrencyLimiter former(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}

Permit ConcurrencyLimiter::try_acquire(std::string_view key) {
  impl_->prepare();
  if (!impl_->lines().nobody_waits(key)) return impl_->behind_others(key);
  return impl_->permit(key, impl_->ask(key));
}

Permit ConcurrencyLimiter::acquire(std::string_view key, nanoseconds patience,
                                   std::stop_token stop) {
  require_patience(patience);
  if (patience == nanoseconds(0)) return try_acquire(key);
  impl_->prepare();
  std::optional<Decision> denied;
  if (!impl_->lets_others_first(key, patience)) {
    const Outcome outcome = impl_->ask(key);
    if (outcome.decision.allowed || outcome.decision.retry_after == kNever) {
      return impl_->permit(key, outcome);
    }
    denied = outcome.decision;
  }
  const Wish wish = impl_->wish(key, Timekeeper::later(impl_->now(), patience));
  const Outcome outcome = wait_in_line(impl_->lines(), wish, denied, stop);
  if (outcome.error) std::rethrow_exception(outcome.error);
  return impl_->permit(key, outcome);
}

void ConcurrencyLimiter::async_acquire(std::string_view key, nanoseconds patience,
                                       PermitCallback callback, std::stop_token stop) {
  Wish wish;
  try {
    require_patience(patience);
    impl_->prepare();
    wish = impl_->wish(key, Timekeeper::later(impl_->now(), patience));
  } catch (const std::exception&) {
    callback({}, std::current_exception());
    return;
  }
  go_for(impl_->lines(), wish, impl_->lets_others_first(key, patience), stop,
         [impl = impl_, key = wish.key, callback = std::move(callback)](const Outcome& outcome) {
           Permit permit;
           std::exception_ptr error = outcome.error;
           if (!error) error = fault_in([&] { permit = impl->permit(key, outcome); });
           callback(std::move(permit), std::move(error));
         });
}

Decision ConcurrencyLimiter::peek(std::string_view key) {
  return impl_->slot().peek(key);
}

Decision ConcurrencyLimiter::block(std::string_view key, nanoseconds duration) {
  return impl_->slot().block(key, duration);
}

void ConcurrencyLimiter::reset(std::string_view key) {
  impl_->slot().reset(key);
  impl_->lines().released(key);
}

void ConcurrencyLimiter::async_peek(std::string_view key, DecisionCallback callback) {
  impl_->slot().async_peek(key, std::move(callback));
}

void ConcurrencyLimiter::async_block(std::string_view key, nanoseconds duration,
                                     DecisionCallback callback) {
  impl_->slot().async_block(key, duration, std::move(callback));
}

void ConcurrencyLimiter::async_reset(std::string_view key, DoneCallback callback) {
  impl_->slot().async_reset(key, std::move(callback));
}

void ConcurrencyLimiter::set_limit(Limit limit) {
  impl_->slot().set_limit(std::move(limit));
}

const Limit& ConcurrencyLimiter::limit() const {
  return impl_->slot().bound().limit;
}

}  // namespace sluice
