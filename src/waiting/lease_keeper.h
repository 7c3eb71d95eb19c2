#pragma once

#include <atomic>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/fork.h"
#include "core/store.h"
#include "waiting/limit_binding.h"
#include "waiting/requests.h"
#include "waiting/timer_thread.h"
#include "waiting/wait_queues.h"

namespace sluice {

class LeaseKeeper;

/// A granted permit, from LeaseKeeper::hold() until it is released or expires. Shared by the Permit
/// that the caller has and by a renewal in flight; while it is held, it stands in the keeper's
/// schedule. It holds a share of the keeper, which so lives as long as it has leases. Thread-safe.
class Lease : public std::enable_shared_from_this<Lease>,
              public boost::intrusive::set_base_hook<
                  boost::intrusive::link_mode<boost::intrusive::normal_link>> {
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

  friend bool operator<(const Lease& a, const Lease& b) { return a.due_ < b.due_; }

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
  TimePoint due_;  // Its place in the schedule.
  bool is_renewing_ = false;
  bool has_callback_ = false;

  // Held while the callback runs, so that call_off() waits for the callback; recursive, as the
  // callback itself may release the permit.
  std::recursive_mutex callback_mutex_;
  std::function<void()> callback_;  // guarded by callback_mutex_
};

/// Renews the permits of one limit that are held in this process: each one when a third of its
/// lease is over. A permit that could not be renewed expires at the end of its lease. Shared by its
/// limiter and its leases.
///
/// One timer serves all permits: it is set to the earliest entry of schedule_, which has the
/// permits that are held. A permit is scheduled for its renewal; while the store has not answered
/// that, for its expiry: so a holder learns of the expiry in time even if the store does not
/// answer. When a permit is released, the timer stays as it is, and may then find nothing to do.
///
/// A child of fork() has copies of its parent's permits. They remain the parent's: in the child
/// nothing is renewed or released, and the schedule is not touched. The timer thread renews; all
/// functions are thread-safe.
class LeaseKeeper : public std::enable_shared_from_this<LeaseKeeper> {
 public:
  using TimePoint = TimerQueue::TimePoint;

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

  // Called with mutex_ held:
  void arm(TimePoint due);
  void schedule(Lease& lease, TimePoint due);
  void unschedule(Lease& lease);

  void renew_due();
  void renew(const std::shared_ptr<Lease>& lease);
  void settle(Lease& lease, TimePoint sent, const Decision& answer);
  void release(const Lease& lease);

  const std::shared_ptr<const LimitBinding> binding_;
  const std::shared_ptr<TimerQueue> timer_;
  const bool is_shared_;
  const std::uint64_t generation_ = fork_generation();
  std::mutex mutex_;
  // Guarded by mutex_:
  boost::intrusive::multiset<Lease, boost::intrusive::constant_time_size<false>> schedule_;
  TimerQueue::Timer armed_{.when = TimerQueue::kEndOfTime};
};

}  // namespace sluice
