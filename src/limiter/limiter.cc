#include "sluice/limiter.h"

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cassert>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/limit_definition.h"
#include "limiter/limiter_core.h"
#include "limiter/limiter_impl.h"

namespace sluice {

namespace {

using std::chrono::nanoseconds;
using TimePoint = TimerThread::TimePoint;

// As many at once need no memory from the system.
constexpr std::size_t kUsualBatch = 64;
constexpr nanoseconds kNoWait{0};

Request to_reserve(const BoundLimit& bound, std::string_view key, std::int64_t cost,
                   nanoseconds patience) {
  Request request = to_take(bound, key, cost);
  require_patience(patience);
  request.patience_ns = patience.count();
  return request;
}

Request to_take_parts(const BoundLimit& bound, std::string_view key, std::int64_t cost,
                      std::span<Decision> parts) {
  Request request = to_take(bound, key, cost);
  const std::size_t count = request.limit->parts.size();
  require_room(parts.size(), count);
  request.parts = parts.first(count);
  return request;
}

void read_asks(const BoundLimit& bound, std::span<const Ask> asks, std::span<Request> requests) {
  assert(requests.size() >= asks.size());
  for (std::size_t i = 0; i < asks.size(); ++i) {
    requests[i] = to_take(bound, asks[i].key, asks[i].cost);
  }
}

/// A caller that waits for units it has reserved, without a thread of its own: tells its callback.
/// There are as many in a process as wait in one queue. Owned by its tasks, on whose thread it
/// ends, and a share of the store with it: a store is not destroyed on its own thread.
class Delay : public std::enable_shared_from_this<Delay> {
 public:
  /// Asks for the same again, for the same callback; unless it `waits`, with a timeout of 0.
  using Retry = std::function<void(DecisionCallback, bool waits)>;

  /// `wakings` is that of the outcome that granted the reservation.
  Delay(std::shared_ptr<const LimiterCore> core, std::string_view key, Reservation reservation,
        std::uint64_t wakings, DecisionCallback callback, Retry retry)
      : core_(std::move(core)),
        timer_thread_(core_->timer()),
        key_(key),
        reservation_(std::move(reservation)),
        wakings_(wakings),
        ready_(timer_thread_->after(reservation_.delay())),
        callback_(std::move(callback)),
        retry_(std::move(retry)) {}
  ~Delay() { taken_places.fetch_sub(1, std::memory_order_relaxed); }
  Delay(const Delay&) = delete;
  Delay& operator=(const Delay&) = delete;

  void begin(const std::stop_token& stop) {
    timer_thread_->post([self = shared_from_this(), stop] { self->wait(stop); });
  }

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  void wait(const std::stop_token& stop) {
    if (!has_place_) return cancel(Ended::kAnswered);
    if (ready_ < TimerThread::kEndOfTime) {
      timer_ = timer_thread_->at(ready_, [self = shared_from_this()] { self->end(); });
    }
    sleeper_.emplace(core_->queues().sleepers(), key_, *core_->binding(), wakings_,
                     [thread = timer_thread_, weak = weak_from_this()](Waking why) {
                       thread->post([weak, why] {
                         if (const auto delay = weak.lock()) delay->wake(why);
                       });
                     });
    if (!stop.stop_possible()) return;
    stop_.emplace(stop, [thread = timer_thread_, weak = weak_from_this()] {
      thread->post([weak] {
        if (const auto delay = weak.lock()) delay->cancel(Ended::kStopped);
      });
    });
  }

  void end() {
    stop_.reset();
    sleeper_.reset();
    if (callback_) std::exchange(callback_, nullptr)(reservation_.decision(), nullptr);
  }

  // Asks again: for what was reset, without a refund, which would give back what others took since.
  void wake(Waking why) {
    if (callback_ == nullptr) return;
    const auto self = shared_from_this();
    timer_thread_->cancel(timer_);
    stop_.reset();
    sleeper_.reset();
    const auto again = [self, callback = std::exchange(callback_, nullptr),
                        waits = why != Waking::kBlocked] { self->retry_(callback, waits); };
    if (why == Waking::kReset) return again();
    reservation_.async_commit(0, [self, again](const Decision&, std::exception_ptr) {
      self->timer_thread_->post(again);
    });
  }

  void cancel(Ended ended) {
    if (callback_ == nullptr) return;
    timer_thread_->cancel(timer_);
    stop_.reset();
    sleeper_.reset();
    reservation_.async_commit(
        0, [self = shared_from_this(), ended, callback = std::exchange(callback_, nullptr)](
               const Decision& refunded, std::exception_ptr error) {
          callback(denied_after(refunded, self->left(), ended), std::move(error));
          self->timer_thread_->post([self] {});
        });
  }

  nanoseconds left() const { return ready_ - timer_thread_->now(); }

  static inline std::atomic<std::size_t> taken_places{0};

  const bool has_place_ =
      taken_places.fetch_add(1, std::memory_order_relaxed) < WaitQueues::kMostWaiting;
  const std::shared_ptr<const LimiterCore> core_;
  const std::shared_ptr<TimerThread> timer_thread_;
  const std::string key_;
  Reservation reservation_;
  const std::uint64_t wakings_;
  const TimePoint ready_;
  DecisionCallback callback_;
  const Retry retry_;
  TimerThread::Timer timer_;
  std::optional<StopCallback> stop_;
  std::optional<Sleepers::Sleeper> sleeper_;
};

}  // namespace

AcquireRequest Limiter::Impl::acquire_request(std::string_view key, std::int64_t cost,
                                              nanoseconds patience) const {
  return {.binding = binding(),
          .key = std::string(key),
          .cost = cost,
          .until = TimerThread::later(now(), patience)};
}

void Limiter::Impl::acquire_later(const std::shared_ptr<const Impl>& impl, AcquireRequest request,
                                  DecisionCallback callback, const std::stop_token& stop) {
  const auto retry = [impl, request, stop](DecisionCallback then, bool waits) {
    AcquireRequest again = request;
    if (!waits) again.until = impl->now();
    acquire_later(impl, std::move(again), std::move(then), stop);
  };
  const auto done = [impl, key = request.key, cost = request.cost, callback = std::move(callback),
                     stop, retry](const AcquireOutcome& outcome) {
    if (is_over(outcome)) return callback(outcome.decision, outcome.error);
    Reservation reservation = impl->reservation(outcome.decision, *outcome.bound, key, cost);
    std::make_shared<Delay>(impl, key, std::move(reservation), outcome.wakings, callback, retry)
        ->begin(stop);
  };
  const bool others_go_first = !impl->queues().is_empty(request.key);
  impl->queues().acquire(std::move(request), others_go_first, stop, done);
}

AcquireOutcome Limiter::Impl::take_or_wait(AcquireRequest& request,
                                           std::optional<AcquireOutcome> asked,
                                           const std::stop_token& stop) const {
  if (!asked && queues().is_empty(request.key)) asked = ask_now(request, now());
  std::optional<Decision> denied;
  if (asked) {
    if (!can_wait(request, *asked, now())) return *std::move(asked);
    denied = asked->decision;
  }
  return queues().wait(request, denied, stop);
}

Decision Limiter::Impl::acquire(AcquireRequest request, std::optional<AcquireOutcome> asked,
                                const std::stop_token& stop) const {
  for (;;) {
    const AcquireOutcome outcome = take_or_wait(request, std::exchange(asked, std::nullopt), stop);
    if (outcome.error) std::rethrow_exception(outcome.error);
    if (is_over(outcome)) return outcome.decision;
    Reservation reservation =
        this->reservation(outcome.decision, *outcome.bound, request.key, request.cost);
    const TimePoint ready = TimerThread::later(now(), reservation.delay());
    const AcquireClaim claim{.binding = request.binding, .key = request.key, .cost = request.cost};
    const Waking why = sleep_until(ready, {&claim, 1}, outcome.wakings, stop).why;
    if (why == Waking::kReady) return reservation.decision();
    // What was reset is not refunded, which would give back what others took since.
    const Decision refunded = why == Waking::kReset ? Decision{} : reservation.commit(0);
    if (why == Waking::kStopped) return denied_after(refunded, ready - now(), Ended::kStopped);
    if (why == Waking::kBlocked) request.until = now();
  }
}

Limiter::Limiter(std::shared_ptr<Store> store, Limit limit)
    : impl_(
          std::make_shared<Impl>(std::move(store), std::move(limit), LimitBinding::Kind::kUnits)) {}

Limiter::~Limiter() = default;
Limiter::Limiter(Limiter&&) noexcept = default;
Limiter& Limiter::operator=(Limiter&&) noexcept = default;

Decision Limiter::check(std::string_view key, std::int64_t cost) {
  return impl_->binding()->ask(to_take(impl_->bound(), key, cost));
}

Decision Limiter::check_parts(std::string_view key, std::int64_t cost, std::span<Decision> parts) {
  return impl_->binding()->ask(to_take_parts(impl_->bound(), key, cost, parts));
}

void Limiter::check(std::span<const Ask> asks, std::span<Decision> decisions) {
  require_room(decisions.size(), asks.size());
  boost::container::small_vector<Request, kUsualBatch> requests(asks.size());
  read_asks(impl_->bound(), asks, requests);
  if (requests.empty()) return;
  impl_->store().decide(requests, kStoreTime, decisions);
}

Reservation Limiter::reserve(std::string_view key, std::int64_t cost, nanoseconds patience) {
  const BoundLimit& bound = impl_->bound();
  return impl_->reservation(impl_->ask(to_reserve(bound, key, cost, patience)), bound, key, cost);
}

Decision Limiter::peek(std::string_view key) {
  return impl_->ask(Operation::kTake, key, 0);
}

Decision Limiter::refund(std::string_view key, std::int64_t units) {
  return impl_->ask(Operation::kRefund, key, units);
}

Decision Limiter::charge(std::string_view key, std::int64_t units) {
  return impl_->ask(Operation::kCharge, key, units);
}

Decision Limiter::take_up_to(std::string_view key, std::int64_t units) {
  return impl_->ask(Operation::kTakeUpTo, key, units);
}

Decision Limiter::block(std::string_view key, nanoseconds duration) {
  return impl_->ask(Operation::kBlock, key, duration.count());
}

void Limiter::reset(std::string_view key) {
  impl_->reset(key);
}

void Limiter::set_limit(Limit limit) {
  impl_->set_limit(std::move(limit));
}

const Limit& Limiter::limit() const {
  return impl_->bound().limit;
}

void Limiter::async_check(std::string_view key, std::int64_t cost, DecisionCallback callback) {
  impl_->async_ask(Operation::kTake, key, cost, std::move(callback));
}

void Limiter::async_check_parts(std::string_view key, std::int64_t cost, PartsCallback callback) {
  const BoundLimit* const bound = &impl_->bound();
  std::vector<Decision> sizes(bound->limit.definition().parts.size());
  Request request;
  if (auto error = error_in([&] { request = to_take_parts(*bound, key, cost, sizes); })) {
    return callback({}, {}, std::move(error));
  }
  ask_later(impl_->store(), {&bound, 1}, {&request, 1}, Batch::Mode::kEach,
            [callback = std::move(callback)](const Batch* batch, std::exception_ptr error) {
              if (error) return callback({}, {}, std::move(error));
              const auto parts = batch->requests()[0].parts;
              callback(batch->decisions()[0], {parts.begin(), parts.end()}, nullptr);
            });
}

void Limiter::async_peek(std::string_view key, DecisionCallback callback) {
  impl_->async_ask(Operation::kTake, key, 0, std::move(callback));
}

void Limiter::async_refund(std::string_view key, std::int64_t units, DecisionCallback callback) {
  impl_->async_ask(Operation::kRefund, key, units, std::move(callback));
}

void Limiter::async_charge(std::string_view key, std::int64_t units, DecisionCallback callback) {
  impl_->async_ask(Operation::kCharge, key, units, std::move(callback));
}

void Limiter::async_take_up_to(std::string_view key, std::int64_t units,
                               DecisionCallback callback) {
  impl_->async_ask(Operation::kTakeUpTo, key, units, std::move(callback));
}

void Limiter::async_block(std::string_view key, nanoseconds duration, DecisionCallback callback) {
  impl_->async_ask(Operation::kBlock, key, duration.count(), std::move(callback));
}

void Limiter::async_reset(std::string_view key, DoneCallback callback) {
  impl_->async_reset(key, std::move(callback));
}

void Limiter::async_check(std::span<const Ask> asks, BatchCallback callback) {
  const BoundLimit& bound = impl_->bound();
  std::vector<Request> requests(asks.size());
  auto error = error_in([&] { read_asks(bound, asks, requests); });
  if (error || requests.empty()) return callback({}, std::move(error));
  const BoundLimit* const about = &bound;
  ask_later(impl_->store(), {&about, 1}, requests, Batch::Mode::kEach,
            [callback = std::move(callback)](const Batch* batch, std::exception_ptr unasked) {
              std::vector<Decision> decisions;
              if (batch) decisions.assign(batch->decisions().begin(), batch->decisions().end());
              callback(std::move(decisions), std::move(unasked));
            });
}

void Limiter::async_reserve(std::string_view key, std::int64_t cost, nanoseconds patience,
                            ReservationCallback callback) {
  const BoundLimit& bound = impl_->bound();
  Request request;
  if (auto error = error_in([&] { request = to_reserve(bound, key, cost, patience); })) {
    return callback({}, std::move(error));
  }
  impl_->async_ask(
      bound, request,
      [impl = impl_, &bound, key = std::string(key), cost, callback = std::move(callback)](
          const Decision& decision, std::exception_ptr error) {
        callback(error ? Reservation() : impl->reservation(decision, bound, key, cost),
                 std::move(error));
      });
}

// A caller that is admitted at once reads no clock, and makes nothing that waiting needs.
Decision Limiter::acquire(std::string_view key, std::int64_t cost, nanoseconds patience,
                          std::stop_token stop) {
  const BoundLimit& bound = impl_->bound();
  const Request request = to_reserve(bound, key, cost, patience);
  Decision decision;
  if (!impl_->queues().is_empty(key)) [[unlikely]] {
    decision = impl_->acquire(impl_->acquire_request(key, cost, patience), std::nullopt, stop);
    return decision;
  }
  const std::uint64_t wakings = Sleepers::wakings();
  impl_->store().decide({&request, 1}, kStoreTime, {&decision, 1});
  if (!decision.allowed || decision.delay > kNoWait) [[unlikely]] {
    AcquireOutcome asked{.decision = decision, .bound = &bound, .wakings = wakings};
    decision = impl_->acquire(impl_->acquire_request(key, cost, patience), std::move(asked), stop);
  }
  return decision;
}

void Limiter::async_acquire(std::string_view key, std::int64_t cost, nanoseconds patience,
                            DecisionCallback callback, std::stop_token stop) {
  auto error = error_in([&] { to_reserve(impl_->bound(), key, cost, patience); });
  if (error) return callback({}, std::move(error));
  Impl::acquire_later(impl_, impl_->acquire_request(key, cost, patience), std::move(callback),
                      stop);
}

}  // namespace sluice
