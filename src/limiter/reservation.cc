#include "sluice/reservation.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "limiter/argument_checks.h"
#include "limiter/ask_later.h"
#include "limiter/reservation_impl.h"
#include "limiter/timekeeper.h"
#include "limiter/wait_until.h"
#include "limiter/waiting_lines.h"

namespace sluice {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

Reservation::Impl::Impl(std::shared_ptr<const LimitSlot> slot, const BoundLimit& bound,
                        const Request& request, Source giver)
    : slot_(std::move(slot)), bound_(bound), key_(request.key), request_(request) {
  request_.key = key_;
  request_.giver = giver;
}

Request Reservation::Impl::settling(std::int64_t actual) const {
  const std::int64_t more = actual - request_.cost;
  Request request = request_;
  request.operation = more > 0 ? Operation::kCharge : Operation::kRefund;
  request.cost = std::abs(more);
  return request;
}

Decision Reservation::Impl::settle(std::int64_t actual) const {
  const Request request = settling(actual);
  const Decision decision = slot_->ask(request);
  if (request.operation == Operation::kRefund) {
    bound_.space->companion<WaitingLines>().released(key_);
  }
  return decision;
}

void Reservation::Impl::settle_later(std::int64_t actual, DecisionCallback told) const {
  const Request request = settling(actual);
  if (request.operation == Operation::kRefund) told = then_wake(bound_, key_, std::move(told));
  ask_later(*slot_->store(), bound_, request, std::move(told));
}

Reservation::Reservation() = default;

Reservation::Reservation(const Decision& decision, std::unique_ptr<Impl> impl)
    : decision_(decision),
      ready_(Timekeeper::later(steady_clock::now(), decision.delay)),
      impl_(std::move(impl)) {}

Reservation::Reservation(Reservation&& other) noexcept
    : decision_(std::exchange(other.decision_, {})),
      ready_(other.ready_),
      cancelled_(other.cancelled_),
      impl_(std::move(other.impl_)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  decision_ = std::exchange(other.decision_, {});
  ready_ = other.ready_;
  cancelled_ = other.cancelled_;
  impl_ = std::move(other.impl_);
  return *this;
}

Reservation::~Reservation() = default;

nanoseconds Reservation::delay() const {
  return std::max(nanoseconds(0), nanoseconds(ready_ - steady_clock::now()));
}

bool Reservation::wait(std::stop_token stop) {
  if (!decision_.allowed || cancelled_) return false;
  if (wait_until(ready_, std::move(stop))) return true;
  cancel();
  return false;
}

std::unique_ptr<Reservation::Impl> Reservation::take_to_cancel() {
  if (impl_ != nullptr) {
    cancelled_ = true;
    ready_ = {};
  }
  return std::exchange(impl_, nullptr);
}

void Reservation::cancel() {
  if (const auto taken = take_to_cancel()) taken->settle(0);
}

void Reservation::async_cancel(DoneCallback callback) {
  const auto taken = take_to_cancel();
  if (taken == nullptr) return callback(nullptr);
  taken->settle_later(0,
                      [callback = std::move(callback)](const Decision&, std::exception_ptr error) {
                        callback(std::move(error));
                      });
}

Decision Reservation::commit(std::int64_t actual) {
  require_units("what it cost", actual);
  const auto taken = std::exchange(impl_, nullptr);
  if (taken == nullptr) return decision_;
  return taken->settle(actual);
}

void Reservation::async_commit(std::int64_t actual, DecisionCallback callback) {
  if (auto fault = fault_in([&] { require_units("what it cost", actual); })) {
    return callback({}, std::move(fault));
  }
  const auto taken = std::exchange(impl_, nullptr);
  if (taken == nullptr) return callback(decision_, nullptr);
  taken->settle_later(actual, std::move(callback));
}

}  // namespace sluice
