#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/store.h"
#include "limiter/limit_slot.h"
#include "limiter/timekeeper.h"
#include "limiter/waiter.h"

namespace sluice {

class PermitKeeper;

/// How long a permit of this limit counts. REQUIRES: the limit is a concurrency.
std::chrono::nanoseconds lease_of(const BoundLimit& bound);

/// Whom to tell that a permit has lapsed, once. Thread-safe; who runs it may call it off.
class LapseCallback {
 public:
  void set(std::function<void()> callback);
  void run();
  /// None runs after this, not even one that is set later, unless this is called from it.
  void call_off();

 private:
  // Held while it runs, so that call_off() waits for that: of itself it does not.
  std::recursive_mutex mutex_;
  std::function<void()> callback_;
  bool is_off_ = false;
};

/// A permit that was granted, and what its keeper knows of it. Counts its shares itself: nearly
/// always it has one, its Permit's, and then it costs nothing to count. Thread-safe.
class HeldPermit {
 public:
  /// For PermitKeeper::hold(). `granted`: the wish's outcome.
  static HeldPermit* make(PermitKeeper& keeper, std::string_view key, const Outcome& granted) {
    return new (key.size()) HeldPermit(keeper, key, granted);
  }
  static void operator delete(void* memory) { ::operator delete(memory); }

  /// Its Permit goes: releases it, and lets go of the share.
  void end();
  /// Lets go of a share: one that its keeper took or, from end(), the Permit's.
  void drop();

  // As those of Permit.
  bool held() const;
  void on_lapse(std::function<void()> callback);
  void release();
  void ignore();

 private:
  friend class PermitKeeper;
  using TimePoint = Timekeeper::TimePoint;

  /// Permits in the order in which their keeper looks after them. With its lock held:
  struct List {
    /// REQUIRES: it stands in none. Costs the same however many there are where it is due last.
    void enter(HeldPermit& permit, TimePoint due);
    TimePoint soonest() const { return first == nullptr ? Timekeeper::kEndOfTime : first->due_; }

    HeldPermit* first = nullptr;
    HeldPermit* last = nullptr;
  };

  enum class State : std::uint8_t { kHeld, kLapsed, kLetGo };

  // The key stands behind the rest: one piece of memory costs less than two.
  static void* operator new(std::size_t bytes, std::size_t key_bytes) {
    return ::operator new(bytes + key_bytes);
  }
  static void operator delete(void* memory, std::size_t) { ::operator delete(memory); }

  HeldPermit(PermitKeeper& keeper, std::string_view key, const Outcome& granted);
  ~HeldPermit() = default;
  std::string_view key() const { return {reinterpret_cast<const char*>(this + 1), key_bytes_}; }
  Request request(Operation operation) const;
  /// Returns what it was until now; kLetGo where it has lapsed, and no renewal is under way that
  /// may be granted late.
  State let_go();
  /// What follows from having let go: `former` is what let_go() returned.
  void give_back(State former);
  /// Out of the list it stands in, if any. With the keeper's lock held.
  void strike_out();

  PermitKeeper& keeper_;  // Stays until the Permit has gone.
  const std::size_t key_bytes_;
  const PermitId id_;
  const Source giver_;
  /// It was the last one that the store had.
  const bool was_last_;
  const BoundLimit* const bound_;
  std::atomic<int> shares_{1};
  std::atomic<State> state_{State::kHeld};  // Written with the keeper's lock held.
  /// When it has lapsed, unless it is renewed.
  std::atomic<TimePoint> lapses_at_;

  // Guarded by the keeper's lock:
  std::shared_ptr<LapseCallback> callback_;
  TimePoint due_;  // When the keeper looks after it next.
  HeldPermit* previous_ = nullptr;
  HeldPermit* next_ = nullptr;
  List* list_ = nullptr;  // Where it stands.
  bool is_renewing_ = false;
};

}  // namespace sluice
