#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>

#include "sluice/decision.h"
#include "sluice/export.h"

namespace sluice {

/// The result of Limiter::reserve(): units that were taken, or a denial. A granted reservation can
/// be waited for, and settled once: by cancel(), which returns the units, or by commit(), which
/// charges the real cost. If it is destroyed before, the units stay charged.
///
///     sluice::Reservation call = budget.reserve(tenant, estimated_tokens);
///     if (!call) return too_many(call.decision().retry_after);
///     const int used = ask_the_model();  // If this throws, the estimate stays charged.
///     call.commit(used);
///
/// It may outlive its Limiter, and keeps the store open. It throws the exceptions of a Limiter; if
/// that is a StoreError of cancel() or commit(), the reservation is settled nevertheless, and what
/// was charged may stay so. Not thread-safe.
class SLUICE_EXPORT Reservation {
 public:
  /// A denied reservation, with nothing to settle.
  Reservation();
  Reservation(Reservation&&) noexcept;
  Reservation& operator=(Reservation&&) noexcept;
  ~Reservation();

  /// Whether it was granted.
  explicit operator bool() const { return decision_.allowed; }
  /// The answer to the reservation. Decision::delay is the wait at that time.
  const Decision& decision() const { return decision_; }

  /// Whether it was settled by cancel() or async_cancel(), or by a wait() that was stopped.
  bool is_cancelled() const { return is_cancelled_; }

  /// The time that remains until the caller may go ahead; 0 if it may go ahead now, or if the
  /// reservation was not granted or is cancelled.
  std::chrono::nanoseconds delay() const;

  /// Blocks until the caller may go ahead, and returns true. Returns false if the reservation was
  /// not granted or is cancelled, or if `stop` is requested before that time; in the last case the
  /// units are returned as by cancel(), unless they are settled. Throws std::system_error if the
  /// caller has to wait and the system cannot start the library's timer thread.
  bool wait(std::stop_token stop = {});

  /// Returns all units, if the reservation is not settled: to the store, or to the local states if
  /// they had granted it. Returns none, nor does commit(), once they do not count any more: their
  /// window is over, the bucket has refilled, or the keys have started fresh under a limit of
  /// set_limit(). (Of an `&`, each part gets back what it counts. Units that stop counting on the
  /// way to the store are returned.) Nor if this process has called reset() for the key since, even
  /// if the call has not returned or has failed: the store may have forgotten them. (It remembers
  /// 65,536 keys that it has reset or blocked, of all limits together. Then it forgets them, and
  /// reservations of before return none.)
  void cancel();

  /// Settles the real cost, `actual` units (at least 0): refunds the rest, or charges the excess.
  /// The result is that of a peek() afterwards, by the limit that granted the reservation, unless
  /// the keys have started fresh since. If the reservation was not granted or is settled already,
  /// it does nothing and returns decision().
  Decision commit(std::int64_t actual);

  /// As cancel(), without blocking. The reservation is settled when this returns, and may be
  /// destroyed; the callback is called once, as in Limiter::async_check().
  void async_cancel(DoneCallback callback);
  /// As commit(), without blocking, like async_cancel().
  void async_commit(std::int64_t actual, DecisionCallback callback);

 private:
  friend class LimiterCore;
  struct Impl;
  Reservation(const Decision& decision, std::unique_ptr<Impl> impl);
  bool begin_to_settle();

  Decision decision_;
  std::chrono::steady_clock::time_point ready_;
  bool is_settled_ = false;
  bool is_cancelled_ = false;
  std::unique_ptr<Impl> impl_;  // Null if it was not granted.
};

}  // namespace sluice
