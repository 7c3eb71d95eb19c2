#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "core/store.h"
#include "sluice/decision.h"
#include "sluice/limit.h"
#include "waiting/timer_thread.h"

namespace sluice {

class WaitQueues;

/// A limit and the place where its keys live in one store: what a Request needs.
struct BoundLimit {
  Limit limit;
  std::shared_ptr<Space> space;

  /// A request to take one unit, with default values. It refers to the key and to this object.
  Request request(std::string_view key) const {
    return {.limit = &limit.definition(), .space = space.get(), .key = key};
  }
};

/// Connects a limiter with its store and its limit. set_limit() may replace the limit while other
/// threads ask; asking takes no lock, because bound() stays valid: every limit that was ever set is
/// kept, once for each space it has had, at most kMostLimits. Thread-safe.
class LimitBinding {
 public:
  /// Which limits it accepts: limits whose units are spent, or limits whose permits are lent.
  enum class Kind : std::uint8_t { kUnits, kPermits };

  static constexpr std::size_t kMostLimits = 10'000;

  /// `queues_of` is WaitQueues::of: a parameter, since wait_queues.h includes this file. Throws
  /// StoreError where the store cannot keep the limit's keys, InvalidLimit where the limit is of
  /// the other kind, std::invalid_argument where there is no store.
  LimitBinding(std::shared_ptr<Store> store, Limit limit, Kind kind,
               std::shared_ptr<WaitQueues> (*queues_of)(Space&));

  const std::shared_ptr<Store>& store() const { return store_; }
  /// The queues of waiting callers, the same for all spaces that the limit has had.
  const std::shared_ptr<WaitQueues>& queues() const { return queues_; }

  /// The current limit. The reference stays valid as long as the binding.
  const BoundLimit& bound() const { return *current_.load(std::memory_order_acquire); }

  /// As Limiter::set_limit(). If the limit gets another space, that space shares the former one's
  /// attachment (the queues of waiting callers).
  void set_limit(Limit limit);

 private:
  void require_kind(const Limit& limit) const;
  void keep(Limit limit, std::shared_ptr<Space> space);

  const std::shared_ptr<Store> store_;
  const Kind kind_;
  std::shared_ptr<WaitQueues> queues_;
  std::mutex mutex_;  // guards bounds_, and the writes of current_
  /// All limits there have been, by space and expression (a view of the limit's own text). The
  /// entries never move.
  std::map<std::pair<const Space*, std::string_view>, BoundLimit> bounds_;
  std::atomic<const BoundLimit*> current_;
};

/// Receives a batch with its answers, and what asking for them would have thrown. The batch is null
/// if the store could not be asked.
using AnsweredBatch = std::function<void(const Batch*, std::exception_ptr)>;

/// Submits several requests as one batch, without waiting; mode kTogether decides them all or
/// nothing. `answered` is called once: within this call, or on the store's worker thread. The batch
/// holds shares of `bounds`; `answered`, of the limits and spaces of all other requests.
void submit_requests(Store& store, std::span<const BoundLimit* const> bounds,
                     std::span<const Request> requests, Batch::Mode mode, AnsweredBatch answered);

/// Asks the store without waiting. `then` runs and is destroyed on the timer thread, not on the
/// store's worker thread, for which other callers wait. It holds what keeps the request's limit and
/// space alive, such as a share of a LimitBinding.
void ask_on_timer(std::shared_ptr<Store> store, const Request& request,
                  std::shared_ptr<TimerQueue> timer, std::function<void(const Decision&)> then);

/// The lease of the limit's permits: how long one counts after its acquisition or last renewal.
/// REQUIRES: it is a limit of permits.
std::chrono::nanoseconds lease_of(const LimitDefinition& limit);

}  // namespace sluice
