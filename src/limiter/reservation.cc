#include "sluice/reservation.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "limiter/limiter_core.h"
#include "waiting/timer_thread.h"

namespace sluice {

using std::chrono::nanoseconds;

namespace {

// Blocks the calling thread until `ready`, and returns true; false if `stop` is requested before.
bool sleep_until(const std::shared_ptr<TimerQueue>& timer, TimerQueue::TimePoint ready,
                 const std::stop_token& stop) {
  TimerQueue::Timer at_ready;
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
  const bool is_ready = block_until_called<bool>(timer, [&](const auto& called) {
    // Called on the timer thread, perhaps twice.
    const auto end = [called, is_over = std::make_shared<bool>(false)](bool at_end) {
      if (!std::exchange(*is_over, true)) called(at_end);
    };
    at_ready = timer->at(std::min(ready, TimerQueue::kLastInstant), [end] { end(true); });
    on_stop.emplace(stop, [timer, end] { timer->post([end] { end(false); }); });
  });
  timer->cancel(at_ready);
  return is_ready;
}

}  // namespace

Reservation::Reservation() = default;

Reservation::Reservation(const Decision& decision, std::unique_ptr<Impl> impl)
    : decision_(decision), impl_(std::move(impl)) {
  if (impl_) ready_ = TimerQueue::later(impl_->core.now(), decision.delay);
}

Reservation::Reservation(Reservation&& other) noexcept {
  *this = std::move(other);
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  decision_ = std::exchange(other.decision_, {});
  ready_ = other.ready_;
  is_settled_ = other.is_settled_;
  is_cancelled_ = other.is_cancelled_;
  impl_ = std::move(other.impl_);
  return *this;
}

Reservation::~Reservation() = default;

nanoseconds Reservation::delay() const {
  if (!impl_ || is_cancelled_) return nanoseconds(0);
  return std::max(nanoseconds(0), nanoseconds(ready_ - impl_->core.now()));
}

bool Reservation::wait(std::stop_token stop) {
  if (!impl_ || is_cancelled_) return false;
  const LimiterCore& core = impl_->core;
  if (core.now() >= ready_ || sleep_until(core.timer(), ready_, stop)) return true;
  cancel();
  return false;
}

// Whether the caller is the first that settles it, and so has to.
bool Reservation::begin_to_settle() {
  return impl_ != nullptr && !std::exchange(is_settled_, true);
}

void Reservation::cancel() {
  if (!begin_to_settle()) return;
  is_cancelled_ = true;
  const Taken& taken = impl_->taken;
  impl_->core.ask(WaitQueues::settling(taken, taken.settled_by(), 0));
}

void Reservation::async_cancel(DoneCallback callback) {
  if (!begin_to_settle()) return callback(nullptr);
  is_cancelled_ = true;
  const BoundLimit& limit = impl_->taken.settled_by();
  impl_->core.async_ask(
      limit, WaitQueues::settling(impl_->taken, limit, 0),
      [callback = std::move(callback)](const Decision&, std::exception_ptr error) {
        callback(std::move(error));
      });
}

Decision Reservation::commit(std::int64_t actual) {
  require_units("what it cost", actual);
  if (!begin_to_settle()) return decision_;
  const Taken& taken = impl_->taken;
  return impl_->core.ask(WaitQueues::settling(taken, taken.settled_by(), actual));
}

void Reservation::async_commit(std::int64_t actual, DecisionCallback callback) {
  if (auto error = error_in([&] { require_units("what it cost", actual); })) {
    return callback({}, std::move(error));
  }
  if (!begin_to_settle()) return callback(decision_, nullptr);
  const BoundLimit& limit = impl_->taken.settled_by();
  impl_->core.async_ask(limit, WaitQueues::settling(impl_->taken, limit, actual),
                        std::move(callback));
}

}  // namespace sluice
