#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "core/store.h"
#include "sluice/decision.h"
#include "sluice/limiter.h"
#include "sluice/reservation.h"
#include "waiting/limit_binding.h"
#include "waiting/requests.h"
#include "waiting/wait_queues.h"

namespace sluice {

/// Throws std::invalid_argument: "`what` is at least `least`, not `number`".
[[noreturn]] void refuse(std::string_view what, std::string_view least, std::int64_t number);

/// Throws std::invalid_argument unless units >= 0. `what` begins the message: "a cost".
inline void require_units(std::string_view what, std::int64_t units) {
  if (units < 0) [[unlikely]]
    refuse(what, "0", units);
}

/// Throws std::invalid_argument unless patience >= 0.
inline void require_patience(std::chrono::nanoseconds patience) {
  if (patience.count() < 0) [[unlikely]]
    refuse("a patience", "0 ns", patience.count());
}

/// The exception that `body` throws, for a callback; null if it throws none.
template <class Body>
std::exception_ptr error_in(const Body& body) {
  try {
    body();
  } catch (const std::exception&) {
    return std::current_exception();
  }
  return nullptr;
}

/// Throws std::invalid_argument unless there is room for so many decisions.
inline void require_room(std::size_t room, std::size_t decisions) {
  if (room >= decisions) [[likely]]
    return;
  throw std::invalid_argument("there is room for " + std::to_string(room) +
                              " decisions, and there are " + std::to_string(decisions) +
                              " to make");
}

/// A request to take `cost` units of the key. Throws std::invalid_argument unless cost >= 0.
inline Request to_take(const BoundLimit& bound, std::string_view key, std::int64_t cost) {
  require_units("a cost", cost);
  Request request = bound.request(key);
  request.cost = cost;
  return request;
}

/// What a Limiter or ConcurrencyLimiter works with: a limit in a store. Requests under way hold
/// shares of the binding, so that the limiter may be destroyed meanwhile. Thread-safe.
class LimiterCore {
 public:
  LimiterCore(std::shared_ptr<Store> store, Limit limit, LimitBinding::Kind kind)
      : binding_(std::make_shared<LimitBinding>(std::move(store), std::move(limit), kind,
                                                &WaitQueues::of)) {}

  const std::shared_ptr<LimitBinding>& binding() const { return binding_; }
  const BoundLimit& bound() const { return binding_->bound(); }
  Store& store() const { return *binding_->store(); }
  WaitQueues& queues() const { return *binding_->queues(); }

  /// The time by which callers wait, and its timer. The clock of the process, unless the store goes
  /// by a ManualClock.
  TimerQueue::TimePoint now() const { return queues().now(); }
  std::shared_ptr<TimerQueue> timer() const { return queues().timer(); }

  /// What an AcquireRequest for this limit takes.
  AcquireClaim claim(std::string_view key, std::int64_t cost) const {
    return {.binding = binding_, .key = std::string(key), .cost = cost};
  }

  /// Asks the store, and waits for its answer. After a refund or reset, the first caller that waits
  /// for the key in this process asks again; after a block, all that wait are denied. Throws
  /// StoreError.
  Decision ask(const Request& request) const;
  /// The same without waiting. `callback` is called once: within this call, or later on the store's
  /// worker thread. The request holds shares of the limit and its space until then, but not of the
  /// store. REQUIRES: the request is about `bound`.
  void async_ask(const BoundLimit& bound, const Request& request, DecisionCallback callback) const;

  /// Asks for an operation on a key. `number` is the duration in ns of a block, and the number of
  /// units for all other operations. Throws std::invalid_argument if it is out of range.
  Decision ask(Operation operation, std::string_view key, std::int64_t number) const;
  void async_ask(Operation operation, std::string_view key, std::int64_t number,
                 DecisionCallback callback) const;

  /// Of what was asked for `claim`, the i-th claim of a request.
  Reservation reservation(AcquireClaim claim, const AcquireOutcome& outcome,
                          std::size_t i = 0) const;

 private:
  const std::shared_ptr<LimitBinding> binding_;
};

/// What was reserved.
struct Reservation::Impl final {
  LimiterCore core;
  Taken taken;
};

}  // namespace sluice
