#pragma once

#include <chrono>
#include <map>
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
  /// Lets the first few pass at once, and then one in a minute.
  class Pace {
   public:
    bool lets_pass(TimePoint now);

   private:
    std::size_t passed_ = 0;
    TimePoint quiet_until_ = TimePoint::min();  // Once as many have passed as may at once.
  };

  /// Why a condition holds, which may change while it goes on; each server of a store has a reason
  /// of its own.
  struct Reasons {
    std::vector<std::string> told;
    Pace pace;
  };

  /// Whether to tell the reason now: each is told once, at the pace of `reasons`.
  static bool is_new(Reasons& reasons, const std::string& reason, TimePoint now);
  /// Whether to report a condition that holds now: not if it was reported before and has not paused
  /// since for long enough.
  bool begins(StoreEvent::Kind kind, TimePoint now);
  /// Whether to tell a loss that is new, or goes on: after the first few, one in a minute, so that
  /// a store that comes and goes fills no log.
  bool may_tell_loss(bool is_new, TimePoint now);

  const std::string store_;
  StoreHealth last_;
  std::map<StoreEvent::Kind, TimePoint> quiet_until_;  // Until then it is not reported again.
  Pace losses_;                                        // Since a minute without a loss.
  bool loss_is_told_ = false;  // The last one. Only then is it told that the store is back.
  Reasons reasons_of_loss_;
  Reasons refusals_;
};

/// Has `observer` called on the timer thread for as long as the store exists.
void observe(const std::shared_ptr<Store>& store, std::string name, StoreObserver observer);

}  // namespace sluice
