#include "sluice/reservation.h"

#include <algorithm>
#include <utility>

#include "limiter/argument_checks.h"
#include "limiter/reservation_impl.h"
#include "limiter/timekeeper.h"
#include "limiter/wait_until.h"
#include "limiter/waiting_lines.h"

namespace sluice {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

Reservation::Impl::Impl(std::shared_ptr<const LimitSlot> slot, const Request& request, Source giver)
    : slot_(std::move(slot)), key_(request.key), request_(request) {
  request_.key = key_;
  request_.giver = giver;
}

Decision Reservation::Impl::ask(Operation operation, std::int64_t units) const {
  Request request = request_;
  request.operation = operation;
  request.cost = units;
  return slot_->ask(request);
}

Decision Reservation::Impl::refund(std::int64_t units) const {
  const Decision decision = ask(Operation::kRefund, units);
  request_.space->companion<WaitingLines>().released(key_);
  return decision;
}

Decision Reservation::Impl::charge(std::int64_t units) const {
  return ask(Operation::kCharge, units);
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

void Reservation::cancel() {
  const auto taken = std::exchange(impl_, nullptr);
  if (taken == nullptr) return;
  cancelled_ = true;
  taken->refund(taken->units());
}

Decision Reservation::commit(std::int64_t actual) {
  require_units("what it cost", actual);
  const auto taken = std::exchange(impl_, nullptr);
  if (taken == nullptr) return decision_;
  const std::int64_t more = actual - taken->units();
  return more > 0 ? taken->charge(more) : taken->refund(-more);
}

}  // namespace sluice
