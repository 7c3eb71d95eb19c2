#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/export.h"
#include "sluice/limit.h"
#include "sluice/limiter.h"
#include "sluice/store.h"

namespace sluice {

class Lease;
class LeaseKeeper;

/// A permit of a ConcurrencyLimiter: its holder is one of those that may run at the same time. The
/// library renews it every third of its lease while it is held, and releases it when the object is
/// destroyed.
///
/// A permit expires if the store has lost it, if the store cannot be reached for a whole lease, or
/// if this process is stopped for that long. The holder must then stop, since another holder may
/// have its place. While the whole machine is suspended, no time passes for this process, but it
/// does for a store on another machine: after that, held() may return true for an expired permit
/// until the next renewal is answered, which starts within a third of the lease.
///
/// Thread-safe, except for moving and destroying.
class SLUICE_EXPORT Permit {
 public:
  /// A permit that was not granted.
  Permit() = default;
  Permit(Permit&&) noexcept;
  Permit& operator=(Permit&&) noexcept;
  /// Calls release().
  ~Permit();

  /// Whether the permit was granted.
  explicit operator bool() const { return decision_.allowed; }
  /// The answer to the acquisition, by the store or as Decision::source says. If it was denied,
  /// retry_after is the time until the first held permit expires; from try_acquire(), if other
  /// callers of this process wait, until the last one expires. Permits may be released earlier, or
  /// stay longer because they are renewed.
  const Decision& decision() const { return decision_; }

  /// Whether the permit counts now: it was granted, is not released or ignored, and has not
  /// expired.
  bool held() const;

  /// Sets the callback for the expiry of the permit. It runs on a thread of the library, or at once
  /// if the permit has expired already; it must be short, must not block, and must not throw. A
  /// later call replaces the callback, and each is called at most once. No callback is called after
  /// release() or ignore() has returned: both wait for a running callback, unless they are called
  /// from it.
  void on_expiry(std::function<void()> callback);

  /// Releases the permit, so that the first caller in the queue can have it. Does nothing if the
  /// permit is not held. Does not wait for a store on another machine, but waits for a running
  /// callback of on_expiry(). (At its exit the process waits, up to a second, for the store to get
  /// what was released, also by destructors of static permits.)
  void release();

  /// Drops the permit without releasing it: it counts until its lease ends. Waits as release()
  /// does.
  void ignore();

 private:
  friend class ConcurrencyLimiter;
  Permit(const Decision& decision, std::shared_ptr<Lease> lease);

  Decision decision_;
  std::shared_ptr<Lease> lease_;  // Null if the permit was not granted.
};

/// Receives the permit, or the exception that the blocking call would have thrown. Otherwise as
/// DecisionCallback.
using PermitCallback = std::function<void(Permit, std::exception_ptr)>;

/// Bounds how many holders have a permit for a key at the same time, over all processes that share
/// the store.
///
///     sluice::ConcurrencyLimiter jobs(store, sluice::Limit("concurrency 4 lease=30s", "jobs"));
///     if (sluice::Permit permit = jobs.acquire("gpu", 3s)) work();
///
/// The callers of one process wait in one queue for each key and are served in order; limiters of
/// one name whose numbers differ have queues of their own. A release in the same process wakes the
/// first of each queue at once. After a release in another process, Redis notifies this one; with
/// Memcached, and if the notification is lost, the first caller asks again after growing pauses.
///
/// Fairness between processes, on a store on another machine: when the callers of one process have
/// taken every released permit of a key for 100 ms, and at least 4, those that still wait ask for
/// none during the next 4 ms, so that another process can have the next one. If the store does not
/// notify, these times are 2 s and 100 ms. If a process crashes, its permits count until their
/// leases end.
///
/// Of a peek(), Decision::remaining is the number of free permits. When the limiter is destroyed,
/// held permits stay held, and waiting calls go on waiting. If the system has no random numbers for
/// the id of a permit, the process is aborted.
class SLUICE_EXPORT ConcurrencyLimiter : public KeyedLimiter {
 public:
  /// Throws StoreError if the store cannot keep this limit's keys, InvalidLimit if `limit` is not a
  /// `concurrency` limit, std::system_error if the system cannot start the library's timer thread.
  ConcurrencyLimiter(std::shared_ptr<Store> store, Limit limit);

  /// Acquires a permit if one is free now and no caller of this process waits for it under a limit
  /// of the same numbers.
  Permit try_acquire(std::string_view key);

  /// Acquires a permit, and waits for it in the queue if necessary. `patience` is the timeout, at
  /// least 0. Not granted when `patience` has passed or `stop` is requested, and at once if 100,000
  /// callers of this process wait already for permits of this limit, over all keys.
  Permit acquire(std::string_view key, std::chrono::nanoseconds patience,
                 std::stop_token stop = {});

  /// As acquire(), but does not block: the callback receives the permit.
  void async_acquire(std::string_view key, std::chrono::nanoseconds patience,
                     PermitCallback callback, std::stop_token stop = {});

 private:
  std::shared_ptr<LeaseKeeper> leases_;
};

}  // namespace sluice
