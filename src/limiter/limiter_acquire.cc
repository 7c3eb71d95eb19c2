#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "limiter/argument_checks.h"
#include "limiter/ask_later.h"
#include "limiter/limiter_impl.h"
#include "limiter/waiting_lines.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;
using TimePoint = Timekeeper::TimePoint;

constexpr nanoseconds kNoWait{0};

TimePoint now() {
  return std::chrono::steady_clock::now();
}

// Until when a granted wish has to wait.
TimePoint ready_at(const Outcome& outcome) {
  return Timekeeper::later(now(), outcome.decision.delay);
}

Request refund_of(const Wish& wish, const Outcome& outcome) {
  Request request = outcome.bound->request(wish.key);
  request.operation = Operation::kRefund;
  request.cost = wish.cost;
  request.giver = outcome.decision.source;
  return request;
}

// Those who wait for a window of the same `&` may have what was given back.
void wake_others(const Wish& wish, const Outcome& outcome) {
  outcome.bound->space->companion<WaitingLines>().released(wish.key);
}

// What was reserved has been given back: who asks again waits as long.
Decision denied_after(Decision refunded, nanoseconds left) {
  refunded.allowed = false;
  refunded.retry_after = std::max(nanoseconds(1), left);
  return refunded;
}

// Returns when the caller may go ahead; or `stop` says not to.
Decision wait_until_ready(const Wish& wish, const Outcome& outcome, std::stop_token stop) {
  const TimePoint ready = ready_at(outcome);
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  if (never.wait_until(lock, std::move(stop), ready, [&] { return now() >= ready; })) {
    return outcome.decision;
  }
  const Decision refunded = wish.slot->ask(refund_of(wish, outcome));
  wake_others(wish, outcome);
  return denied_after(refunded, ready - now());
}

/// The same for a callback. Owned by its entries in the agenda, on whose thread it ends.
class Delay : public std::enable_shared_from_this<Delay> {
 public:
  Delay(Wish wish, const Outcome& outcome, DecisionCallback callback)
      : wish_(std::move(wish)), outcome_(outcome), callback_(std::move(callback)) {}

  void begin(const std::stop_token& stop) {
    ready_ = ready_at(outcome_);
    if (ready_ < Timekeeper::kEndOfTime) {
      timer_ = keeper_->at(ready_, [self = shared_from_this()] { self->end(); });
    }
    if (!stop.stop_possible()) return;
    keeper_->post([self = shared_from_this(), stop] { self->heed(stop); });
  }

 private:
  void heed(const std::stop_token& stop) {
    if (callback_ == nullptr) return;
    stop_.emplace(stop, [keeper = keeper_, weak = weak_from_this()] {
      keeper->post([weak] {
        if (const auto delay = weak.lock()) delay->cancel();
      });
    });
  }

  void end() {
    stop_.reset();
    if (callback_) std::exchange(callback_, nullptr)(outcome_.decision, nullptr);
  }

  void cancel() {
    if (callback_ == nullptr) return;
    const auto self = shared_from_this();
    keeper_->cancel(timer_);
    stop_.reset();
    ask_later(*wish_.slot->store(), *outcome_.bound, refund_of(wish_, outcome_),
              [self, callback = std::exchange(callback_, nullptr)](const Decision& refunded,
                                                                   std::exception_ptr error) {
                wake_others(self->wish_, self->outcome_);
                callback(denied_after(refunded, self->ready_ - now()), std::move(error));
                // The store does not end on its own thread.
                self->keeper_->post([self] {});
              });
  }

  using StopCallback = std::stop_callback<std::function<void()>>;

  const std::shared_ptr<Timekeeper> keeper_ = Timekeeper::shared();
  const Wish wish_;
  const Outcome outcome_;
  DecisionCallback callback_;
  TimePoint ready_;
  Timekeeper::Timer timer_;
  std::optional<StopCallback> stop_;
};

void go_on(const Wish& wish, const Outcome& outcome, const DecisionCallback& callback,
           const std::stop_token& stop) {
  if (outcome.error || !outcome.decision.allowed || outcome.decision.delay == kNoWait) {
    callback(outcome.decision, outcome.error);
  } else {
    std::make_shared<Delay>(wish, outcome, callback)->begin(stop);
  }
}

/// An acquisition that has to wait, or whose first answer is not the end of it.
Decision acquire_slowly(Wish wish, Outcome outcome, bool is_asked, const std::stop_token& stop) {
  if (!is_asked || (!outcome.decision.allowed && can_wait(wish, outcome, now()))) {
    auto& lines = wish.slot->bound().space->companion<WaitingLines>();
    outcome =
        wait_in_line(lines, wish, is_asked ? std::optional(outcome.decision) : std::nullopt, stop);
    if (outcome.error) std::rethrow_exception(outcome.error);
  }
  if (!outcome.decision.allowed || outcome.decision.delay == kNoWait) return outcome.decision;
  return wait_until_ready(wish, outcome, stop);
}

}  // namespace

Decision Limiter::acquire(std::string_view key, std::int64_t cost, nanoseconds patience,
                          std::stop_token stop) {
  require_units("a cost", cost);
  require_patience(patience);
  const LimitSlot& slot = impl_->slot;
  const BoundLimit& bound = slot.bound();
  const bool asks = bound.space->companion<WaitingLines>().nobody_waits(key);
  Decision decision;
  if (asks) [[likely]] {
    Request request = bound.request(key);
    request.cost = cost;
    request.patience_ns = patience.count();
    decision = slot.ask(request);
    if (decision.allowed && decision.delay == kNoWait) return decision;
  }
  return acquire_slowly({.slot = std::shared_ptr<const LimitSlot>(impl_, &slot),
                         .key = std::string(key),
                         .cost = cost,
                         .until = Timekeeper::later(now(), patience)},
                        {.decision = decision, .bound = &bound}, asks, stop);
}

void Limiter::async_acquire(std::string_view key, std::int64_t cost, nanoseconds patience,
                            DecisionCallback callback, std::stop_token stop) {
  try {
    require_units("a cost", cost);
    require_patience(patience);
  } catch (const std::invalid_argument&) {
    callback({}, std::current_exception());
    return;
  }
  const TimePoint asked = now();
  const std::shared_ptr<const LimitSlot> slot(impl_, &impl_->slot);
  Wish wish{.slot = slot,
            .key = std::string(key),
            .cost = cost,
            .until = Timekeeper::later(asked, patience)};
  auto& lines = slot->bound().space->companion<WaitingLines>();
  const auto go_ahead = [wish, callback = std::move(callback), stop](const Outcome& outcome) {
    go_on(wish, outcome, callback, stop);
  };
  if (slot->store()->answers_later()) {
    lines.ask(std::move(wish), stop, go_ahead);
    return;
  }
  if (!lines.nobody_waits(key)) {
    lines.wait(std::move(wish), std::nullopt, stop, go_ahead);
    return;
  }
  const Outcome outcome = ask_now(wish, asked);
  if (!outcome.error && !outcome.decision.allowed && can_wait(wish, outcome, now())) {
    lines.wait(std::move(wish), outcome.decision, stop, go_ahead);
  } else {
    go_ahead(outcome);
  }
}

}  // namespace sluice
