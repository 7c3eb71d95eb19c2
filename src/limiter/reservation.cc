#include "sluice/reservation.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "limiter/limiter_core.h"

namespace sluice {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

Request Reservation::Impl::settling(std::int64_t actual) const {
  Request request = bound_.request(key_);
  request.operation = actual > units_ ? Operation::kCharge : Operation::kRefund;
  request.cost = std::abs(actual - units_);
  request.giver = giver_;
  return request;
}

Decision Reservation::Impl::settle(std::int64_t actual) const {
  return core_.ask(settling(actual));
}

void Reservation::Impl::settle_later(std::int64_t actual, DecisionCallback callback) const {
  core_.async_ask(bound_, settling(actual), std::move(callback));
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
