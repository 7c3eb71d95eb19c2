#include "sluice/reservation.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "limiter/argument_checks.h"
#include "limiter/reservation_impl.h"

namespace sluice {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

Request ReservedUnits::settling(std::int64_t actual) const {
  Request request = bound_.request(key_);
  request.operation = actual > units_ ? Operation::kCharge : Operation::kRefund;
  request.cost = std::abs(actual - units_);
  request.giver = giver_;
  return request;
}

Decision ReservedUnits::settle(std::int64_t actual) const {
  const Request request = settling(actual);
  const Decision decision = core_.ask(request);
  if (request.operation == Operation::kRefund) core_.queues().released(key_);
  return decision;
}

void ReservedUnits::settle_later(std::int64_t actual, DecisionCallback callback) const {
  const Request request = settling(actual);
  if (request.operation == Operation::kRefund) {
    callback = then_wake(core_.shared_queues(), key_, std::move(callback));
  }
  ask_later(*core_.binding()->store(), bound_, request, std::move(callback));
}

bool wait_until(TimerThread::TimePoint ready, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  return never.wait_until(lock, std::move(stop), ready,
                          [&] { return steady_clock::now() >= ready; });
}

Reservation::Reservation() = default;

Reservation::Reservation(const Decision& decision, std::unique_ptr<Impl> impl)
    : decision_(decision),
      ready_(TimerThread::later(steady_clock::now(), decision.delay)),
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
  if (auto error = error_in([&] { require_units("what it cost", actual); })) {
    return callback({}, std::move(error));
  }
  const auto taken = std::exchange(impl_, nullptr);
  if (taken == nullptr) return callback(decision_, nullptr);
  taken->settle_later(actual, std::move(callback));
}

}  // namespace sluice
