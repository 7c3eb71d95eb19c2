#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/store.h"
#include "sluice/decision.h"
#include "sluice/limit.h"
#include "waiting/timer_thread.h"

namespace sluice {

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

  /// Throws StoreError where the store cannot keep the limit's keys, InvalidLimit where the limit
  /// is of the other kind, std::invalid_argument where there is no store.
  LimitBinding(std::shared_ptr<Store> store, Limit limit, Kind kind);

  const std::shared_ptr<Store>& store() const { return store_; }

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
  std::mutex mutex_;  // guards bounds_, and the writes of current_
  /// All limits there have been, by space and expression (a view of the limit's own text). The
  /// entries never move.
  std::map<std::pair<const Space*, std::string_view>, BoundLimit> bounds_;
  std::atomic<const BoundLimit*> current_;
};

/// What a store has answered to a batch.
struct BatchAnswers {
  std::vector<Decision> decisions;
  /// Those for which Request::parts of each request had room.
  std::vector<std::vector<Decision>> parts = {};
  /// Why some decisions are kUnavailable; empty if none are.
  std::string error;
};
using Answered = std::function<void(const BatchAnswers&)>;

/// Asks the store without waiting; together, the requests have one answer. `then` runs and is
/// destroyed on the timer thread, not on the store's worker thread, for which other callers wait.
/// It holds what keeps the requests' limits and spaces alive, such as a share of a LimitBinding.
/// Throws std::invalid_argument as Store::submit(); `then` is then not called.
void ask_on_timer(const std::shared_ptr<Store>& store, std::span<const Request> requests,
                  std::shared_ptr<TimerQueue> timer, Answered then,
                  Batch::Mode mode = Batch::Mode::kEach);

/// The lease of the limit's permits: how long one counts after its acquisition or last renewal.
/// REQUIRES: it is a limit of permits.
std::chrono::nanoseconds lease_of(const BoundLimit& bound);

}  // namespace sluice
