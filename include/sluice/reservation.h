#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>

#include "sluice/decision.h"
#include "sluice/export.h"

namespace sluice {

/// Units that Limiter::reserve() took, or was denied. It outlives its Limiter, not its store.
///
///     sluice::Reservation call = budget.reserve(tenant, estimated_tokens);
///     if (!call) return too_many(call.decision().retry_after);
///     const int used = ask_the_model();  // throws: the estimate stays charged
///     call.commit(used);
///
/// What happens to it happens once: after cancel() or commit() it is settled. If it just goes,
/// what it took stays taken. One thread at a time; what it throws is as in Limiter.
class SLUICE_EXPORT Reservation {
 public:
  /// Denied, with nothing to settle.
  Reservation();
  Reservation(Reservation&&) noexcept;
  Reservation& operator=(Reservation&&) noexcept;
  ~Reservation();

  /// Whether it was granted.
  explicit operator bool() const { return decision_.allowed; }
  /// What the store said when it was asked for; Decision::delay is the wait then.
  const Decision& decision() const { return decision_; }

  /// What is left of the wait now; 0 where the caller may go ahead, or there is nothing to wait
  /// for: it was not granted or is cancelled.
  std::chrono::nanoseconds delay() const;

  /// Waits until the caller may go ahead. False where it was not granted or is cancelled, or `stop`
  /// ended the wait: what is not settled by then is given back, as by cancel().
  bool wait(std::stop_token stop = {});

  /// Gives all of it back, if it is not settled: to who gave it, the store or this process.
  void cancel();

  /// Settles for what it really cost, `actual` units (at least 0): gives back what is less, charges
  /// what is more. Answers as a peek afterwards; where it was not granted or is settled, does
  /// nothing and answers the decision.
  Decision commit(std::int64_t actual);

  /// As cancel(), without waiting for a store elsewhere. It is settled when this returns, and may
  /// go; the callback is called once, as those of Limiter::async_check().
  void async_cancel(DoneCallback callback);
  /// As commit(), likewise.
  void async_commit(std::int64_t actual, DecisionCallback callback);

 private:
  friend class Limiter;
  class Impl;
  Reservation(const Decision& decision, std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> take_to_cancel();

  Decision decision_;
  std::chrono::steady_clock::time_point ready_;
  bool cancelled_ = false;
  std::unique_ptr<Impl> impl_;  // Null where it is settled.
};

}  // namespace sluice
