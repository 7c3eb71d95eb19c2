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
  StoreEvent event(StoreEvent::Kind kind, const StoreHealth& health, const std::string& what) const;
  /// Whether to report a condition that holds now: not if it was reported before and has not paused
  /// since. Sets `quiet_until` to the end of the pause that it needs.
  static bool begins(TimePoint& quiet_until, TimePoint now);

  const std::string store_;
  StoreHealth last_;
  // Until then, kFull and kClock are not reported again.
  TimePoint full_until_ = TimePoint::min();
  TimePoint behind_until_ = TimePoint::min();
  // The reason that the last kDown told, and until when another one is not reported.
  std::string told_reason_;
  TimePoint reason_until_ = TimePoint::min();
};

/// Has `observer` called on the timer thread for as long as the store exists.
void observe(const std::shared_ptr<Store>& store, std::string name, StoreObserver observer);

}  // namespace sluice
