#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/store.h"
#include "sluice/health.h"

namespace sluice {

/// Finds the events of a store by comparing its health from time to time. Not thread-safe.
class StoreEvents final {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// `store` is what messages call it: its URL without a password.
  explicit StoreEvents(std::string store) : store_(std::move(store)) {}

  /// What has happened since the last call, given the health now.
  std::vector<StoreEvent> since_last(const StoreHealth& health, TimePoint now);

 private:
  /// Whether to report that the store is lost for another reason than those that were told.
  bool is_new_reason(const std::string& reason, TimePoint now) const;
  /// Whether to report a condition that holds now: not if it was reported before and has not paused
  /// since. Sets `quiet_until` to the end of the pause that it needs.
  static bool begins(TimePoint& quiet_until, TimePoint now);

  const std::string store_;
  StoreHealth last_;
  // Until then, kLate, kRefused, kFull and kClock are not reported again.
  TimePoint late_until_ = TimePoint::min();
  TimePoint refused_until_ = TimePoint::min();
  TimePoint full_until_ = TimePoint::min();
  TimePoint behind_until_ = TimePoint::min();
  bool was_up_ = false;
  // The reasons of a loss that were told, and until when few others are.
  std::vector<std::string> told_reasons_;
  TimePoint reasons_until_ = TimePoint::min();
  // The errors that were told, at most kMostRefusals, and until when another one is not: each
  // server of a store has an error of its own.
  std::vector<std::string> told_refusals_;
  TimePoint refusal_until_ = TimePoint::min();
};

/// Has `observer` called on the timer thread for as long as the store exists.
void observe(const std::shared_ptr<Store>& store, std::string name, StoreObserver observer);

}  // namespace sluice
