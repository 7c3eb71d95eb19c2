#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "algorithms/counted_for.h"
#include "algorithms/limit_definition.h"
#include "core/batch.h"
#include "core/store.h"
#include "sluice/decision.h"
#include "sluice/limiter.h"
#include "sluice/reservation.h"
#include "waiting/limit_binding.h"
#include "waiting/wait_queues.h"
#include "waiting/waiting_callers.h"

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

/// What is noted before the store is asked for units.
struct BeforeAsking {
  std::uint64_t wakings = 0;  ///< WaitingCallers::wakings()
  TimerQueue::TimePoint at;
};

/// What a Limiter or ConcurrencyLimiter works with: a limit in a store, and the queues of waiting
/// callers. Requests under way hold shares of the binding and the queues, so that the limiter may
/// be destroyed meanwhile. Thread-safe.
class LimiterCore {
 public:
  LimiterCore(std::shared_ptr<Store> store, Limit limit, LimitBinding::Kind kind)
      : binding_(std::make_shared<LimitBinding>(std::move(store), std::move(limit), kind)),
        queues_(bound().space->attachment<WaitQueues>()) {}

  const std::shared_ptr<LimitBinding>& binding() const { return binding_; }
  const BoundLimit& bound() const { return binding_->bound(); }
  Store& store() const { return *binding_->store(); }
  /// The queues of waiting callers, the same for all spaces that the limit has had.
  WaitQueues& queues() const { return *queues_; }

  /// The time by which callers wait, and its timer. The clock of the process, unless the store goes
  /// by a ManualClock.
  TimerQueue::TimePoint now() const { return queues_->now(); }
  std::shared_ptr<TimerQueue> timer() const { return queues_->timer(); }

  /// What an AcquireRequest for this limit takes.
  AcquireClaim claim(std::string_view key, std::int64_t cost) const {
    return {.binding = binding_, .queues = queues_, .key = std::string(key), .cost = cost};
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

  /// Called before the store is asked for what is to be a reservation().
  BeforeAsking before_asking() const { return {WaitingCallers::wakings(), now()}; }
  /// Of units for which `bound` was asked, and which `giver` has granted if the decision allows.
  Reservation reservation(const Decision& decision, const CountedFor& counted_for,
                          const BoundLimit& bound, std::string_view key, std::int64_t cost,
                          Source giver, const BeforeAsking& before) const;

 private:
  const std::shared_ptr<LimitBinding> binding_;
  const std::shared_ptr<WaitQueues> queues_;
};

/// Receives a batch with its answers, and what asking for them would have thrown. The batch is null
/// if the store could not be asked.
using AnsweredBatch = std::function<void(const Batch*, std::exception_ptr)>;

/// Submits several requests about `bounds` as one batch, without waiting; mode kTogether decides
/// them all or nothing.
void submit_requests(Store& store, std::span<const BoundLimit* const> bounds,
                     std::span<const Request> requests, Batch::Mode mode, AnsweredBatch answered);

/// Units that were taken, their limit, who gave them, and for how long they count.
struct Reservation::Impl final {
  /// The limit by which they are settled: the one that granted them or, if set_limit() has made the
  /// keys fresh since, and so has forgotten them, the present one.
  const BoundLimit& settled_by() const;
  /// A request that replaces the estimate by `actual` units: refunds the difference to the giver,
  /// or charges it to the store. Its decision is that of a peek afterwards. `limit`: settled_by().
  Request settling(const BoundLimit& limit, std::int64_t actual) const;

  LimiterCore core;
  const BoundLimit& granted_by;
  std::string key;
  std::int64_t units;  ///< That were recorded: a full store admits without recording.
  Source giver;
  BeforeAsking before;
  CountedFor counted_for;
};

}  // namespace sluice
