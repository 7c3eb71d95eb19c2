#pragma once

#include <chrono>
#include <functional>
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
  bool has_become_full(const StoreHealth& health, TimePoint now);

  const std::string store_;
  StoreHealth last_;
  TimePoint quiet_until_ = TimePoint::min();  // It has been told as full.
};

/// Has `observer` called on the timer thread for as long as the store exists.
void observe(const std::shared_ptr<Store>& store, std::string name, StoreObserver observer);

}  // namespace sluice
