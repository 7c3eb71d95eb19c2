#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/fork.h"
#include "core/store.h"
#include "waiting/limit_binding.h"
#include "waiting/requests.h"
#include "waiting/timer_thread.h"
#include "waiting/wait_queues.h"

namespace sluice {

class Lease;

/// Renews the permits of one limit that are held in this process: each one when a third of its
/// lease is over. A permit that could not be renewed expires at the end of its lease. Shared by its
/// limiter and its leases.
///
/// One timer serves all permits: it is set to the earliest entry of schedule_. A permit is
/// scheduled for its renewal; while the store has not answered that, for its expiry: so a holder
/// learns of the expiry in time even if the store does not answer. When a permit is released, the
/// timer stays as it is, and may then find nothing to do.
///
/// A child of fork() has copies of its parent's permits. They remain the parent's: in the child
/// nothing is renewed or released. The timer thread renews; all functions are thread-safe.
class LeaseKeeper : public std::enable_shared_from_this<LeaseKeeper> {
 public:
  using TimePoint = TimerQueue::TimePoint;

  /// The most renewals in one batch: a store that is busy takes a batch as a whole or not at all,
  /// and the answers to a batch come together.
  static constexpr std::size_t kMostTogether = 128;

  /// `binding` must be to a limit of permits. Renews by the time and timer of the queues of its
  /// space. Throws std::system_error if the system cannot start the timer thread.
  explicit LeaseKeeper(std::shared_ptr<const LimitBinding> binding);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  /// Whether other processes share its permits.
  bool is_shared() const { return is_shared_; }
  TimePoint now() const { return timer_->now(); }

  /// Renews a permit from now on. REQUIRES: it was granted.
  std::shared_ptr<Lease> hold(std::string key, const AcquireOutcome& granted);

 private:
  friend class Lease;
  using Leases = std::vector<std::shared_ptr<Lease>>;
  using Schedule = std::multimap<TimePoint, std::shared_ptr<Lease>>;

  // Called with mutex_ held:
  void schedule(const std::shared_ptr<Lease>& lease, TimePoint due);
  void unschedule(Lease& lease);
  void arm();

  void renew_due();
  void renew(Leases leases);
  void settle(const Leases& leases, TimePoint sent, std::span<const Decision> answers);
  void release(const Lease& lease);

  const std::shared_ptr<const LimitBinding> binding_;
  const std::shared_ptr<WaitQueues> queues_;
  const std::shared_ptr<TimerQueue> timer_;
  const bool is_shared_;
  const std::uint64_t generation_ = fork_generation();
  std::mutex mutex_;
  // Guarded by mutex_:
  Schedule schedule_;
  std::optional<TimerQueue::Timer> armed_;
};

/// A granted permit, from LeaseKeeper::hold() until it is released or expires. Shared by the Permit
/// that the caller has, by the keeper's schedule, and by a renewal in flight. It holds a share of
/// the keeper, which so lives as long as it has leases. Thread-safe.
class Lease {
 public:
  using TimePoint = TimerQueue::TimePoint;

  /// For LeaseKeeper::hold().
  Lease(std::shared_ptr<LeaseKeeper> keeper, std::string key, const AcquireOutcome& granted);

  // As those of Permit.
  bool held() const;
  void on_expiry(std::function<void()> callback);
  void release();
  void ignore();

 private:
  friend class LeaseKeeper;

  enum class State : std::uint8_t { kHeld, kExpired, kReleased };

  Request request(Operation operation) const;
  bool mark_released();
  void run_callback();
  void call_off();

  const std::shared_ptr<LeaseKeeper> keeper_;
  const std::string key_;
  const PermitId id_;
  const Source giver_;
  const bool was_last_;  // It was the last free permit of the key in the store.
  const BoundLimit& bound_;
  std::atomic<State> state_{State::kHeld};  // Written with the keeper's lock held.
  /// When it expires, unless it is renewed.
  std::atomic<TimePoint> expires_at_;

  // Guarded by the keeper's lock:
  LeaseKeeper::Schedule::iterator scheduled_ = keeper_->schedule_.end();  // end(): not scheduled.
  bool is_renewing_ = false;
  bool has_callback_ = false;

  // Held while the callback runs, so that call_off() waits for the callback; recursive, as the
  // callback itself may release the permit.
  std::recursive_mutex callback_mutex_;
  std::function<void()> callback_;  // guarded by callback_mutex_
};

}  // namespace sluice
