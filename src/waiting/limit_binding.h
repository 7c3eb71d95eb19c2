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

#include "core/store.h"
#include "sluice/decision.h"
#include "sluice/limit.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// A limit and the place where its keys live in one store: what a Request needs.
struct BoundLimit {
  Limit limit;
  std::shared_ptr<Space> space;

  /// A request to take one unit, of which most is as usual. Refers to the key, and to this.
  Request request(std::string_view key) const {
    return {.limit = &limit.definition(), .space = space.get(), .key = key};
  }
};

/// A store, and the limit about which it is asked now: what a limiter stands on. The limit can be
/// replaced while other threads ask, and asking takes no lock for that: all limits there have been
/// are kept, each once for each space it has had, at most kMostLimits. Thread-safe.
class LimitBinding {
 public:
  /// What limits it takes: those whose units are spent, or those whose permits are lent.
  enum class Kind : std::uint8_t { kUnits, kPermits };

  static constexpr std::size_t kMostLimits = 10'000;

  /// Throws StoreError where the store cannot keep the limit's keys, InvalidLimit where the limit
  /// is of the other kind, std::invalid_argument where there is no store.
  LimitBinding(std::shared_ptr<Store> store, Limit limit, Kind kind);

  const std::shared_ptr<Store>& store() const { return store_; }

  /// The limit there is now. The reference stays valid as long as the binding.
  const BoundLimit& bound() const { return *current_.load(std::memory_order_acquire); }

  /// Asks one question, and waits for the answer. Throws StoreError.
  Decision ask(const Request& request) const {
    Decision decision;
    store_->decide({&request, 1}, kStoreTime, {&decision, 1});
    return decision;
  }

  /// Given what the store answered, and why it left something unanswered, if it did.
  using Answered = std::function<void(std::span<const Decision>, const std::string& error)>;

  /// Asks without waiting. `then` runs, and is destroyed, on the timer thread: so it may hold the
  /// store, which must not be destroyed on its own thread.
  void ask(std::span<const Request> requests, std::shared_ptr<TimerThread> timer,
           Answered then) const;

  /// As Limiter::set_limit(). The space that the limit then has shares the former's attachment.
  void set_limit(Limit limit);

 private:
  using HeldSpace = std::shared_ptr<const std::shared_ptr<Space>>;

  void require_kind(const Limit& limit) const;
  void keep(Limit limit, std::shared_ptr<Space> space);

  const std::shared_ptr<Store> store_;
  const Kind kind_;
  std::mutex mutex_;  // guards the next two, and the writes of current_
  /// The one share of the current space: those in bounds_ are shares of it, so that the store sees
  /// whether another limiter holds the space.
  HeldSpace held_;
  /// By space and expression, which is the limit's own. They stay where they are.
  std::map<std::pair<const Space*, std::string_view>, BoundLimit> bounds_;
  std::atomic<const BoundLimit*> current_;
};

/// How long a permit of this limit counts. REQUIRES: it is a limit of permits.
std::chrono::nanoseconds lease_of(const BoundLimit& bound);

}  // namespace sluice
