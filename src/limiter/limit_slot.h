#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/store.h"
#include "limiter/bound_limit.h"
#include "sluice/decision.h"
#include "sluice/limit.h"

namespace sluice {

/// A store, and the limit about which it is asked now: what a limiter stands on. The limit can be
/// replaced while others ask, and who asks takes no lock for that: all limits there have been are
/// kept, each once for each space it has had, at most kMostLimits. Thread-safe.
class LimitSlot {
 public:
  /// What limits it takes: those that are spent, or those whose permits are lent.
  enum class Kind : std::uint8_t { kSpent, kLent };

  static constexpr std::size_t kMostLimits = 10'000;

  /// Throws StoreError where the store cannot keep the limit's keys, InvalidLimit where the limit
  /// is of the other kind, std::invalid_argument where there is no store.
  LimitSlot(std::shared_ptr<Store> store, Limit limit, Kind kind);

  const std::shared_ptr<Store>& store() const { return store_; }

  /// The limit there is now. The reference stays valid as long as the slot.
  const BoundLimit& bound() const { return *current_.load(std::memory_order_acquire); }

  /// Asks one question, and waits for the answer. Throws StoreError.
  Decision ask(const Request& request) const {
    Decision decision;
    store_->decide({&request, 1}, kStoreTime, {&decision, 1});
    return decision;
  }

  // As those of Limiter.
  Decision peek(std::string_view key) const;
  Decision block(std::string_view key, std::chrono::nanoseconds duration) const;
  void reset(std::string_view key) const;
  void async_peek(std::string_view key, DecisionCallback callback) const;
  void async_block(std::string_view key, std::chrono::nanoseconds duration,
                   DecisionCallback callback) const;
  /// And wakes who waits for the key here.
  void async_reset(std::string_view key, DoneCallback callback) const;
  void set_limit(Limit limit);

 private:
  using HeldSpace = std::shared_ptr<const std::shared_ptr<Space>>;

  void require_kind(const Limit& limit) const;
  void keep(Limit limit, std::shared_ptr<Space> space);

  const std::shared_ptr<Store> store_;
  const Kind kind_;
  std::mutex mutex_;  // guards the next two, and the writes of current_
  /// The one share of the current space: those in bounds_ are shares of it, so that the store sees
  /// whether anybody else holds the space.
  HeldSpace held_;
  /// By space and expression, which is the limit's own. They stay where they are.
  std::map<std::pair<const Space*, std::string_view>, BoundLimit> bounds_;
  std::atomic<const BoundLimit*> current_;
};

}  // namespace sluice
