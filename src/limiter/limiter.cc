#include "sluice/limiter.h"

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>
#include <cassert>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "limiter/argument_checks.h"
#include "limiter/limiter_core.h"
#include "limiter/reservation_impl.h"

namespace sluice {

/// What a Limiter consists of.
class Limiter::Impl final : public LimiterCore {
 public:
  using LimiterCore::LimiterCore;
};

namespace {

using std::chrono::nanoseconds;
using TimePoint = TimerThread::TimePoint;

// As many at once need no memory from the system.
constexpr std::size_t kUsualBatch = 64;

Request of_units(Request request, Operation operation, std::int64_t units) {
  request.operation = operation;
  request.cost = units;
  return request;
}

Request to_reserve(const BoundLimit& bound, std::string_view key, std::int64_t cost,
                   nanoseconds patience) {
  require_units("a cost", cost);
  require_patience(patience);
  Request request = bound.request(key);
  request.cost = cost;
  request.patience_ns = patience.count();
  return request;
}

void read_asks(const BoundLimit& bound, std::span<const Ask> asks, std::span<Request> requests) {
  assert(requests.size() >= asks.size());
  for (std::size_t i = 0; i < asks.size(); ++i) {
    require_units("a cost", asks[i].cost);
    requests[i] = bound.request(asks[i].key);
    requests[i].cost = asks[i].cost;
  }
}

struct Units {
  Operation operation;
  std::int64_t number;
  /// As for require_units().
  std::string_view what;
};

void ask_later(const LimiterCore& core, std::string_view key, const Units& units,
               DecisionCallback callback) {
  if (auto error = error_in([&] { require_units(units.what, units.number); })) {
    return callback({}, std::move(error));
  }
  const BoundLimit& bound = core.bound();
  if (units.operation == Operation::kRefund) {
    callback = then_wake(core.shared_queues(), key, std::move(callback));
  }
  ask_later(*core.binding()->store(), bound,
            of_units(bound.request(key), units.operation, units.number), std::move(callback));
}

constexpr nanoseconds kNoWait{0};

TimePoint now() {
  return TimePoint::clock::now();
}

// Whether the caller may go ahead at once, or not at all.
bool is_over(const AcquireOutcome& outcome) {
  return !outcome.is_granted() || outcome.decision.delay == kNoWait;
}

// What was reserved has been given back: a caller that asks again waits as long.
Decision denied_after(Decision refunded, nanoseconds left) {
  refunded.allowed = false;
  refunded.delay = kNoWait;
  refunded.retry_after = std::max(nanoseconds(1), left);
  return refunded;
}

/// A caller that has been granted time to come, and waits for it.
struct Reserved {
  Reserved(const LimiterCore& core, const AcquireRequest& request, const AcquireOutcome& outcome)
      : decision(outcome.decision),
        ready(TimerThread::later(now(), decision.delay)),
        units(core, *outcome.bound, request.key, request.cost, decision.source) {}

  const Decision decision;
  const TimePoint ready;
  const ReservedUnits units;
};

/// The same without a thread of its own: tells its callback. There are as many in a process as wait
/// in one queue. Owned by its tasks, on whose thread it ends.
class Delay : public std::enable_shared_from_this<Delay> {
 public:
  Delay(Reserved reserved, DecisionCallback callback)
      : reserved_(std::move(reserved)), callback_(std::move(callback)) {}
  ~Delay() { taken_places.fetch_sub(1, std::memory_order_relaxed); }
  Delay(const Delay&) = delete;
  Delay& operator=(const Delay&) = delete;

  void begin(const std::stop_token& stop) {
    timer_thread_->post([self = shared_from_this(), stop] { self->wait(stop); });
  }

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  void wait(const std::stop_token& stop) {
    if (!has_place_) return cancel();
    if (reserved_.ready < TimerThread::kEndOfTime) {
      timer_ = timer_thread_->at(reserved_.ready, [self = shared_from_this()] { self->end(); });
    }
    if (!stop.stop_possible()) return;
    stop_.emplace(stop, [thread = timer_thread_, weak = weak_from_this()] {
      thread->post([weak] {
        if (const auto delay = weak.lock()) delay->cancel();
      });
    });
  }

  void end() {
    stop_.reset();
    if (callback_) std::exchange(callback_, nullptr)(reserved_.decision, nullptr);
  }

  void cancel() {
    if (callback_ == nullptr) return;
    timer_thread_->cancel(timer_);
    stop_.reset();
    reserved_.units.settle_later(
        0, [self = shared_from_this(), callback = std::exchange(callback_, nullptr)](
               const Decision& refunded, std::exception_ptr error) {
          callback(denied_after(refunded, self->reserved_.ready - now()), std::move(error));
          // The store is not destroyed on its own thread.
          self->timer_thread_->post([self] {});
        });
  }

  static inline std::atomic<std::size_t> taken_places{0};

  const bool has_place_ =
      taken_places.fetch_add(1, std::memory_order_relaxed) < WaitQueues::kMostWaiting;
  const std::shared_ptr<TimerThread> timer_thread_ = TimerThread::shared();
  const Reserved reserved_;
  DecisionCallback callback_;
  TimerThread::Timer timer_;
  std::optional<StopCallback> stop_;
};

}  // namespace

Limiter::Limiter(std::shared_ptr<Store> store, Limit limit)
    : impl_(
          std::make_shared<Impl>(std::move(store), std::move(limit), LimitBinding::Kind::kUnits)) {}

Limiter::~Limiter() = default;
Limiter::Limiter(Limiter&&) noexcept = default;
Limiter& Limiter::operator=(Limiter&&) noexcept = default;

Decision Limiter::check(std::string_view key, std::int64_t cost) {
  require_units("a cost", cost);
  Request request = impl_->bound().request(key);
  request.cost = cost;
  return impl_->ask(request);
}

void Limiter::check(std::span<const Ask> asks, std::span<Decision> decisions) {
  if (decisions.size() < asks.size()) {
    throw std::invalid_argument("there is room for " + std::to_string(decisions.size()) +
                                " decisions, and there are " + std::to_string(asks.size()) +
                                " to make");
  }
  boost::container::small_vector<Request, kUsualBatch> requests(asks.size());
  read_asks(impl_->bound(), asks, requests);
  if (requests.empty()) return;
  impl_->binding()->store()->decide(requests, kStoreTime, decisions);
}

Decision Limiter::peek(std::string_view key) {
  return impl_->peek(key);
}

Reservation Limiter::reserve(std::string_view key, std::int64_t cost, nanoseconds patience) {
  const BoundLimit& bound = impl_->bound();
  const Request request = to_reserve(bound, key, cost, patience);
  const Decision decision = impl_->ask(request);
  if (!decision.allowed) return {decision, nullptr};
  return {decision, std::make_unique<Reservation::Impl>(*impl_, bound, key, cost, decision.source)};
}

Decision Limiter::refund(std::string_view key, std::int64_t units) {
  require_units("a refund", units);
  const Decision decision =
      impl_->ask(of_units(impl_->bound().request(key), Operation::kRefund, units));
  impl_->queues().released(key);
  return decision;
}

Decision Limiter::charge(std::string_view key, std::int64_t units) {
  require_units("a charge", units);
  return impl_->ask(of_units(impl_->bound().request(key), Operation::kCharge, units));
}

Decision Limiter::take_up_to(std::string_view key, std::int64_t units) {
  require_units("what is taken", units);
  return impl_->ask(of_units(impl_->bound().request(key), Operation::kTakeUpTo, units));
}

Decision Limiter::block(std::string_view key, nanoseconds duration) {
  return impl_->block(key, duration);
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
  ask_later(*impl_, key, {Operation::kTake, cost, "a cost"}, std::move(callback));
}

void Limiter::async_refund(std::string_view key, std::int64_t units, DecisionCallback callback) {
  ask_later(*impl_, key, {Operation::kRefund, units, "a refund"}, std::move(callback));
}

void Limiter::async_charge(std::string_view key, std::int64_t units, DecisionCallback callback) {
  ask_later(*impl_, key, {Operation::kCharge, units, "a charge"}, std::move(callback));
}

void Limiter::async_take_up_to(std::string_view key, std::int64_t units,
                               DecisionCallback callback) {
  ask_later(*impl_, key, {Operation::kTakeUpTo, units, "what is taken"}, std::move(callback));
}

void Limiter::async_peek(std::string_view key, DecisionCallback callback) {
  impl_->async_peek(key, std::move(callback));
}

void Limiter::async_block(std::string_view key, nanoseconds duration, DecisionCallback callback) {
  impl_->async_block(key, duration, std::move(callback));
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
  ask_later(*impl_->binding()->store(), {&about, 1}, requests, Batch::Mode::kEach,
            std::move(callback));
}

void Limiter::async_reserve(std::string_view key, std::int64_t cost, nanoseconds patience,
                            ReservationCallback callback) {
  const BoundLimit& bound = impl_->bound();
  Request request;
  if (auto error = error_in([&] { request = to_reserve(bound, key, cost, patience); })) {
    return callback({}, std::move(error));
  }
  auto reserve = [impl = impl_, &bound, key = std::string(key), cost,
                  callback = std::move(callback)](const Decision& decision,
                                                  std::exception_ptr error) {
    std::unique_ptr<Reservation::Impl> taken;
    if (!error && decision.allowed) {
      taken = std::make_unique<Reservation::Impl>(*impl, bound, key, cost, decision.source);
    }
    callback({decision, std::move(taken)}, std::move(error));
  };
  ask_later(*impl_->binding()->store(), bound, request, std::move(reserve));
}

Decision Limiter::acquire(std::string_view key, std::int64_t cost, nanoseconds patience,
                          std::stop_token stop) {
  require_units("a cost", cost);
  require_patience(patience);
  std::optional<Decision> denied;
  const BoundLimit& bound = impl_->bound();
  AcquireOutcome outcome{.bound = &bound};
  const bool asks = impl_->queues().is_empty(key);
  if (asks) [[likely]] {
    Request request = bound.request(key);
    request.cost = cost;
    request.patience_ns = patience.count();
    outcome.decision = impl_->ask(request);
    if (is_over(outcome) && outcome.decision.allowed) return outcome.decision;
    denied = outcome.decision;
  }
  const AcquireRequest request{.binding = impl_->binding(),
                               .key = std::string(key),
                               .cost = cost,
                               .until = TimerThread::later(now(), patience)};
  if (!asks || can_wait(request, outcome, now())) {
    outcome = impl_->queues().wait(request, denied, stop);
    if (outcome.error) std::rethrow_exception(outcome.error);
  }
  if (is_over(outcome)) return outcome.decision;
  const Reserved reserved(*impl_, request, outcome);
  if (wait_until(reserved.ready, std::move(stop))) return reserved.decision;
  const Decision refunded = reserved.units.settle(0);
  return denied_after(refunded, reserved.ready - now());
}

void Limiter::async_acquire(std::string_view key, std::int64_t cost, nanoseconds patience,
                            DecisionCallback callback, std::stop_token stop) {
  auto error = error_in([&] {
    require_units("a cost", cost);
    require_patience(patience);
  });
  if (error) return callback({}, std::move(error));
  const AcquireRequest request{.binding = impl_->binding(),
                               .key = std::string(key),
                               .cost = cost,
                               .until = TimerThread::later(now(), patience)};
  impl_->queues().acquire(
      request, !impl_->queues().is_empty(key), stop,
      [core = LimiterCore(*impl_), request, callback = std::move(callback),
       stop](const AcquireOutcome& outcome) {
        if (is_over(outcome)) return callback(outcome.decision, outcome.error);
        std::make_shared<Delay>(Reserved(core, request, outcome), callback)->begin(stop);
      });
}

/// What claims ask, and the one store that they share.
class AskedClaims {
 public:
  /// Throws std::invalid_argument as check_all(), but for what the store finds.
  explicit AskedClaims(std::span<const Claim> claims) {
    if (claims.empty() || claims.size() > kMaxTogether) {
      throw std::invalid_argument("from 1 to " + std::to_string(kMaxTogether) +
                                  " claims are taken from together, not " +
                                  std::to_string(claims.size()));
    }
    store = claims[0].limiter.impl_->binding()->store().get();
    for (const Claim& claim : claims) {
      const LimiterCore& core = *claim.limiter.impl_;
      const BoundLimit& bound = core.bound();
      if (core.binding()->store().get() != store) {
        throw std::invalid_argument("the limits '" + claims[0].limiter.limit().space() + "' and '" +
                                    bound.limit.space() +
                                    "' are in different stores: one step takes from one store");
      }
      require_units("a cost", claim.cost);
      requests.push_back(of_units(bound.request(claim.key), Operation::kTake, claim.cost));
      bounds.push_back(&bound);
    }
  }

  Store* store = nullptr;
  boost::container::static_vector<Request, kMaxTogether> requests;
  /// bounds[i] is what requests[i] is about.
  boost::container::static_vector<const BoundLimit*, kMaxTogether> bounds;
};

Decision check_all(std::span<const Claim> claims) {
  const AskedClaims asked(claims);
  return asked.store->decide_all(asked.requests, kStoreTime);
}

void async_check_all(std::span<const Claim> claims, DecisionCallback callback) {
  std::optional<AskedClaims> asked;
  if (auto error = error_in([&] { asked.emplace(claims); })) {
    return callback({}, std::move(error));
  }
  ask_later(*asked->store, asked->bounds, asked->requests, Batch::Mode::kTogether,
            [callback = std::move(callback)](const std::vector<Decision>& decisions,
                                             std::exception_ptr error) {
              callback(decisions.empty() ? Decision{} : decisions[0], std::move(error));
            });
}

}  // namespace sluice
