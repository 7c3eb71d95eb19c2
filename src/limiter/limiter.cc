#include "sluice/limiter.h"

#include <boost/container/small_vector.hpp>
#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/counted_for.h"
#include "algorithms/limit_definition.h"
#include "core/safe_text.h"
#include "limiter/limiter_core.h"
#include "sluice/store.h"
#include "waiting/wait_queues.h"

namespace sluice {

namespace {

using std::chrono::nanoseconds;

// As many at once need no memory from the system.
constexpr std::size_t kUsualBatch = 64;

// Throws std::invalid_argument unless the cost and the patience are at least 0. The timeout begins
// at `now`.
AcquireRequest to_acquire(const LimiterCore& core, TimerQueue::TimePoint now, std::string_view key,
                          std::int64_t cost, nanoseconds patience) {
  require_units("a cost", cost);
  require_patience(patience);
  return {core.claim(key, cost), TimerQueue::later(now, patience)};
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

void require_reset(std::string_view key, const Decision& answer) {
  if (answer.source == Source::kStore) return;
  throw StoreError("the store has not confirmed the reset of the key '" + printable(key, 64) +
                   "': it may or may not have reset it");
}

// Limiter::acquire() for a caller that may have to wait. Not inlined, for the sake of those that
// need not.
[[gnu::noinline]] Decision ask_and_wait(const LimiterCore& core, std::string_view key,
                                        std::int64_t cost, nanoseconds patience,
                                        const std::stop_token& stop) {
  AcquireRequest request(core.claim(key, cost), TimerQueue::later(core.now(), patience));
  return WaitQueues::acquire_blocking(std::move(request), stop).decision;
}

}  // namespace

KeyedLimiter::KeyedLimiter(std::shared_ptr<LimiterCore> core) : core_(std::move(core)) {}

KeyedLimiter::~KeyedLimiter() = default;
KeyedLimiter::KeyedLimiter(KeyedLimiter&&) noexcept = default;
KeyedLimiter& KeyedLimiter::operator=(KeyedLimiter&&) noexcept = default;

Decision KeyedLimiter::peek(std::string_view key) {
  return core_->ask(Operation::kTake, key, 0);
}

Decision KeyedLimiter::block(std::string_view key, nanoseconds duration) {
  return core_->ask(Operation::kBlock, key, duration.count());
}

void KeyedLimiter::reset(std::string_view key) {
  require_reset(key, core_->ask(Operation::kReset, key, 1));
}

void KeyedLimiter::set_limit(Limit limit) {
  core_->binding()->set_limit(std::move(limit));
  // Those that wait ask again by the new limit.
  core_->queues().callers().limit_replaced();
}

const Limit& KeyedLimiter::limit() const {
  return core_->bound().limit;
}

void KeyedLimiter::async_peek(std::string_view key, DecisionCallback callback) {
  core_->async_ask(Operation::kTake, key, 0, std::move(callback));
}

void KeyedLimiter::async_block(std::string_view key, nanoseconds duration,
                               DecisionCallback callback) {
  core_->async_ask(Operation::kBlock, key, duration.count(), std::move(callback));
}

void KeyedLimiter::async_reset(std::string_view key, DoneCallback callback) {
  core_->async_ask(Operation::kReset, key, 1,
                   [key = std::string(key), callback = std::move(callback)](
                       const Decision& answer, std::exception_ptr error) {
                     if (!error) error = error_in([&] { require_reset(key, answer); });
                     callback(std::move(error));
                   });
}

Limiter::Limiter(std::shared_ptr<Store> store, Limit limit)
    : KeyedLimiter(std::make_shared<LimiterCore>(std::move(store), std::move(limit),
                                                 LimitBinding::Kind::kUnits)) {}

Decision Limiter::check(std::string_view key, std::int64_t cost) {
  return core_->store().decide_one(to_take(core_->bound(), key, cost));
}

Decision Limiter::check_parts(std::string_view key, std::int64_t cost, std::span<Decision> parts) {
  return core_->store().decide_one(to_take_parts(core_->bound(), key, cost, parts));
}

void Limiter::check(std::span<const Ask> asks, std::span<Decision> decisions) {
  require_room(decisions.size(), asks.size());
  boost::container::small_vector<Request, kUsualBatch> requests(asks.size());
  read_asks(core_->bound(), asks, requests);
  if (requests.empty()) return;
  core_->store().decide(requests, kStoreTime, decisions);
}

Reservation Limiter::reserve(std::string_view key, std::int64_t cost, nanoseconds patience) {
  const TimerQueue::TimePoint now = core_->now();
  AcquireRequest request = to_acquire(*core_, now, key, cost, patience);
  const AcquireOutcome outcome = ask_now(request, now);
  if (outcome.error) std::rethrow_exception(outcome.error);
  return core_->reservation(std::move(request.claims[0]), outcome);
}

Decision Limiter::refund(std::string_view key, std::int64_t units) {
  return core_->ask(Operation::kRefund, key, units);
}

Decision Limiter::charge(std::string_view key, std::int64_t units) {
  return core_->ask(Operation::kCharge, key, units);
}

Decision Limiter::take_up_to(std::string_view key, std::int64_t units) {
  return core_->ask(Operation::kTakeUpTo, key, units);
}

void Limiter::async_check(std::string_view key, std::int64_t cost, DecisionCallback callback) {
  core_->async_ask(Operation::kTake, key, cost, std::move(callback));
}

void Limiter::async_check_parts(std::string_view key, std::int64_t cost, PartsCallback callback) {
  const BoundLimit* const bound = &core_->bound();
  std::vector<Decision> sizes(bound->limit.definition().parts.size());
  Request request;
  if (auto error = error_in([&] { request = to_take_parts(*bound, key, cost, sizes); })) {
    return callback({}, {}, std::move(error));
  }
  submit_requests(core_->store(), {&bound, 1}, {&request, 1}, Batch::Mode::kEach,
                  [callback = std::move(callback)](const Batch* batch, std::exception_ptr error) {
                    if (error) return callback({}, {}, std::move(error));
                    const auto parts = batch->requests()[0].parts;
                    callback(batch->decisions()[0], {parts.begin(), parts.end()}, nullptr);
                  });
}

void Limiter::async_refund(std::string_view key, std::int64_t units, DecisionCallback callback) {
  core_->async_ask(Operation::kRefund, key, units, std::move(callback));
}

void Limiter::async_charge(std::string_view key, std::int64_t units, DecisionCallback callback) {
  core_->async_ask(Operation::kCharge, key, units, std::move(callback));
}

void Limiter::async_take_up_to(std::string_view key, std::int64_t units,
                               DecisionCallback callback) {
  core_->async_ask(Operation::kTakeUpTo, key, units, std::move(callback));
}

void Limiter::async_check(std::span<const Ask> asks, BatchCallback callback) {
  const BoundLimit& bound = core_->bound();
  std::vector<Request> requests(asks.size());
  auto error = error_in([&] { read_asks(bound, asks, requests); });
  if (error || requests.empty()) return callback({}, std::move(error));
  const BoundLimit* const about = &bound;
  submit_requests(core_->store(), {&about, 1}, requests, Batch::Mode::kEach,
                  [callback = std::move(callback)](const Batch* batch, std::exception_ptr unasked) {
                    std::vector<Decision> decisions;
                    if (batch != nullptr) {
                      decisions.assign(batch->decisions().begin(), batch->decisions().end());
                    }
                    callback(std::move(decisions), std::move(unasked));
                  });
}

void Limiter::async_reserve(std::string_view key, std::int64_t cost, nanoseconds patience,
                            ReservationCallback callback) {
  const TimerQueue::TimePoint now = core_->now();
  std::optional<AcquireRequest> request;
  if (auto error = error_in([&] { request = to_acquire(*core_, now, key, cost, patience); })) {
    return callback({}, std::move(error));
  }
  ask_async(*request, now,
            [core = core_, claim = request->claim(),
             callback = std::move(callback)](const AcquireOutcome& outcome) {
              if (outcome.error) return callback({}, outcome.error);
              callback(core->reservation(claim, outcome), nullptr);
            });
}

// A store in this process is first asked without patience, under a limit of one part: a caller that
// need not wait then reads no clock, and makes nothing that waiting needs. What is denied has taken
// nothing. (Of an `a & b` the caller may have to know for how long each part counts its units.)
Decision Limiter::acquire(std::string_view key, std::int64_t cost, nanoseconds patience,
                          std::stop_token stop) {
  const BoundLimit& bound = core_->bound();
  Request request = to_take(bound, key, cost);
  require_patience(patience);
  const bool may_pass_at_once = !stop.stop_requested() && !core_->store().answers_later() &&
                                CountedFor::parts_of(*request.limit) == 0 &&
                                (cost == 0 || core_->queues().is_empty(key, bound.limit));
  if (may_pass_at_once) {
    request.patience_ns = 0;
    const Decision decision = core_->store().decide_one(request);
    if (decision.allowed) [[likely]]
      return decision;
  }
  return ask_and_wait(*core_, key, cost, patience, stop);
}

void Limiter::async_acquire(std::string_view key, std::int64_t cost, nanoseconds patience,
                            DecisionCallback callback, std::stop_token stop) {
  std::optional<AcquireRequest> request;
  if (auto error =
          error_in([&] { request = to_acquire(*core_, core_->now(), key, cost, patience); })) {
    return callback({}, std::move(error));
  }
  WaitQueues::acquire(*std::move(request), stop,
                      [callback = std::move(callback)](const AcquireOutcome& outcome) {
                        callback(outcome.decision, outcome.error);
                      });
}

}  // namespace sluice
