#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "limiter/argument_checks.h"
#include "limiter/ask_later.h"
#include "limiter/give_back.h"
#include "limiter/limiter_impl.h"
#include "limiter/wait_until.h"
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
  if (wait_until(ready, std::move(stop))) return outcome.decision;
  const Decision refunded = wish.slot->ask(refund_of(wish, outcome));
  wake_others(wish, outcome);
  return denied_after(refunded, ready - now());
}

// Nobody can wait for what was reserved.
void go_without(const Wish& wish, const Outcome& outcome, const DecisionCallback& callback,
                std::exception_ptr error) {
  give_back(wish.slot, *outcome.bound, refund_of(wish, outcome));
  callback(denied_after(outcome.decision, outcome.decision.delay), std::move(error));
}

/// A place among those of this process who wait without a thread of their own: there are as many as
/// in one line.
class Place {
 public:
  Place() : is_taken_(taken_.fetch_add(1, std::memory_order_relaxed) < kMost) {}
  ~Place() { taken_.fetch_sub(1, std::memory_order_relaxed); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  bool is_taken() const { return is_taken_; }

 private:
  static constexpr std::size_t kMost = WaitingLines::kMostWaiting;
  static inline std::atomic<std::size_t> taken_{0};

  const bool is_taken_;
};

/// The same for a callback. Owned by its entries in the agenda, on whose thread it ends.
class Delay : public std::enable_shared_from_this<Delay> {
 public:
  Delay(Wish wish, const Outcome& outcome, DecisionCallback callback)
      : wish_(std::move(wish)), outcome_(outcome), callback_(std::move(callback)) {}

  bool has_place() const { return place_.is_taken(); }

  void begin(const std::stop_token& stop) {
    keeper_->post([self = shared_from_this(), stop] { self->wait(stop); });
  }

 private:
  void wait(const std::stop_token& stop) {
    try {
      if (ready_ < Timekeeper::kEndOfTime) {
        timer_ = keeper_->at(ready_, [self = shared_from_this()] { self->end(); });
      }
      if (stop.stop_possible()) heed(stop);
    } catch (const std::exception&) {
      keeper_->cancel(timer_);
      go_without(wish_, outcome_, std::exchange(callback_, nullptr), std::current_exception());
    }
  }

  void heed(const std::stop_token& stop) {
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
    const DecisionCallback callback = std::exchange(callback_, nullptr);
    try {
      ask_later(*wish_.slot->store(), *outcome_.bound, refund_of(wish_, outcome_),
                [self, callback](const Decision& refunded, std::exception_ptr error) {
                  wake_others(self->wish_, self->outcome_);
                  callback(denied_after(refunded, self->ready_ - now()), std::move(error));
                  // The store does not end on its own thread.
                  self->keeper_->post([self] {});
                });
    } catch (const std::exception&) {
      callback({}, std::current_exception());
    }
  }

  using StopCallback = std::stop_callback<std::function<void()>>;

  const Place place_;
  const std::shared_ptr<Timekeeper> keeper_ = Timekeeper::shared();
  const Wish wish_;
  const Outcome outcome_;
  const TimePoint ready_ = ready_at(outcome_);
  DecisionCallback callback_;
  Timekeeper::Timer timer_;
  std::optional<StopCallback> stop_;
};

void go_on(const Wish& wish, const Outcome& outcome, const DecisionCallback& callback,
           const std::stop_token& stop) {
  if (outcome.error || !outcome.decision.allowed || outcome.decision.delay == kNoWait) {
    callback(outcome.decision, outcome.error);
    return;
  }
  std::exception_ptr error;
  try {
    const auto delay = std::make_shared<Delay>(wish, outcome, callback);
    if (delay->has_place()) return delay->begin(stop);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  go_without(wish, outcome, callback, std::move(error));
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
  Wish wish;
  try {
    require_units("a cost", cost);
    require_patience(patience);
    wish = {.slot = std::shared_ptr<const LimitSlot>(impl_, &impl_->slot),
            .key = std::string(key),
            .cost = cost,
            .until = Timekeeper::later(now(), patience)};
  } catch (const std::exception&) {
    callback({}, std::current_exception());
    return;
  }
  auto& lines = wish.slot->bound().space->companion<WaitingLines>();
  go_for(lines, wish, !lines.nobody_waits(key), stop,
         [wish, callback = std::move(callback), stop](const Outcome& outcome) {
           go_on(wish, outcome, callback, stop);
         });
}

}  // namespace sluice
