#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/decision.h"
#include "sluice/export.h"
#include "sluice/limit.h"
#include "sluice/reservation.h"
#include "sluice/store.h"

namespace sluice {

/// For who waits as long as it takes.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

/// One question of a batch.
struct Ask {
  /// As in check(). The bytes stay the caller's.
  std::string_view key;
  /// At least 0.
  std::int64_t cost = 1;
};

/// Given a decision for each question. Where a Limiter would have thrown, the exception comes with
/// them: those that the store did not answer are then Source::kUnanswered, or, where the arguments
/// were wrong, there are none. Else as DecisionCallback.
using BatchCallback = std::function<void(std::vector<Decision>, std::exception_ptr)>;

/// Given the reservation, or, where a Limiter would have thrown, the exception. As
/// DecisionCallback.
using ReservationCallback = std::function<void(Reservation, std::exception_ptr)>;

/// Answers one question: may this caller go ahead now? One limit over one store; keys tell the
/// callers apart, and are any bytes. Cheap to make; limiters of one limit name on one store share
/// their keys' state. For limits of permits (concurrency) see ConcurrencyLimiter in permit.h.
///
/// Thread-safe: any thread may call any function at any time, but moving and destroying.
///
/// Every operation is one atomic step of the store. They throw std::invalid_argument where a number
/// is outside its range, and StoreError where the store did not answer and its URL says
/// on_failure=raise; under any other policy Decision::source says who answered, and what the store
/// did not answer is done to the states of this process alone.
class SLUICE_EXPORT Limiter {
 public:
  /// Throws StoreError where the store cannot keep this limit's keys, InvalidLimit for a limit of
  /// permits.
  Limiter(std::shared_ptr<Store> store, Limit limit);
  ~Limiter();
  Limiter(Limiter&&) noexcept;
  Limiter& operator=(Limiter&&) noexcept;

  /// Takes `cost` units (at least 0) for `key` if the limit has them now, else changes nothing. A
  /// cost of 0 is a peek.
  Decision check(std::string_view key, std::int64_t cost = 1);

  /// Many keys at once: asks[i] is answered in decisions[i], as if one after the other. A store
  /// elsewhere is asked once for all. REQUIRES: decisions.size() >= asks.size().
  void check(std::span<const Ask> asks, std::span<Decision> decisions);

  /// How the key stands: always allowed, changes nothing.
  Decision peek(std::string_view key);

  /// Takes `cost` units, and returns when the caller may go ahead: now, or after a wait of at most
  /// `patience` (at least 0). Buckets reserve units that are still to come; for other limits the
  /// callers of this process wait in line, one line for each key. Denied, at once, where the wait
  /// would be longer, or 100,000 wait in line already, for all keys of the limit; or when patience
  /// or `stop` ends it, in which case what was reserved has been given back.
  Decision acquire(std::string_view key, std::int64_t cost = 1,
                   std::chrono::nanoseconds patience = kForever, std::stop_token stop = {});

  /// Takes `cost` units, now or, from a bucket, of what is still to come within `patience`. The
  /// result says when the caller may go ahead, and can be given back or settled: see Reservation.
  Reservation reserve(std::string_view key, std::int64_t cost = 1,
                      std::chrono::nanoseconds patience = kForever);

  /// Gives `units` (at least 0) back, never beyond fresh: those taken last first. Answers as a peek
  /// afterwards.
  Decision refund(std::string_view key, std::int64_t units);

  /// Takes `units` (at least 0) whatever there is: what was used already, for example. The key may
  /// go into debt, which keeps others out until it is paid. Never denied, but where a memory
  /// store has no room to record it: nothing has changed then, and Decision::source is kFull.
  /// Answers as a peek afterwards.
  Decision charge(std::string_view key, std::int64_t units);

  /// Takes as many of `units` (at least 0) as remain: Decision::taken. Denied where none do.
  Decision take_up_to(std::string_view key, std::int64_t units);

  /// Denies the key all costs above 0 from now on for `duration` (1 ns to 2^61 ns), or until an
  /// earlier block ends if that is later; its state stays as it is. reset() lifts it. Answers as a
  /// peek afterwards. Not recorded where a memory store has no room for it, as a charge.
  Decision block(std::string_view key, std::chrono::nanoseconds duration);

  /// Forgets the key: as if it had never been seen. Throws StoreError where a store elsewhere did
  /// not answer: what this process keeps of the key is then forgotten, and no more is known.
  void reset(std::string_view key);

  /// Judges by other numbers from now on, of a limit with the same name: keys keep their state
  /// where algorithm, window, precision and anchor stay the same (buckets always do), else they
  /// start fresh. For this Limiter; others of the name keep their numbers. Throws
  /// std::invalid_argument where the name is another, StoreError where the store cannot go on from
  /// the keys' states, or this Limiter keeps 10,000 limits: it keeps each that it has had, so that
  /// nobody who asks has to wait, and the same one anew each time that its keys start fresh.
  void set_limit(Limit limit);

  /// The limit there is now: stays valid as long as the Limiter.
  const Limit& limit() const;

  /// @name Without waiting
  /// Each asks as the one whose name it has, and does not wait for a store elsewhere. What that one
  /// returns or throws is given to the callback, which is called once: before the call returns
  /// where the answer is there at once, as always from memory; else on a thread of the library.
  /// Keys are copied, and the Limiter may go before the answer comes; what its store has not
  /// answered when that goes, it did not answer.
  /// @{

  /// check()
  void async_check(std::string_view key, std::int64_t cost, DecisionCallback callback);
  /// check(), of many keys at once.
  void async_check(std::span<const Ask> asks, BatchCallback callback);
  /// peek()
  void async_peek(std::string_view key, DecisionCallback callback);
  /// reserve()
  void async_reserve(std::string_view key, std::int64_t cost, std::chrono::nanoseconds patience,
                     ReservationCallback callback);
  /// refund()
  void async_refund(std::string_view key, std::int64_t units, DecisionCallback callback);
  /// charge()
  void async_charge(std::string_view key, std::int64_t units, DecisionCallback callback);
  /// take_up_to()
  void async_take_up_to(std::string_view key, std::int64_t units, DecisionCallback callback);
  /// block()
  void async_block(std::string_view key, std::chrono::nanoseconds duration,
                   DecisionCallback callback);
  /// reset()
  void async_reset(std::string_view key, DoneCallback callback);
  /// acquire(). Where 100,000 in this process wait already for time they have reserved (some 500
  /// bytes each), one more is denied.
  void async_acquire(std::string_view key, std::int64_t cost, std::chrono::nanoseconds patience,
                     DecisionCallback callback, std::stop_token stop = {});
  /// @}

 private:
  friend class AskedClaims;
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// One of several that are taken from together.
struct Claim {
  /// Whose limit is asked.
  Limiter& limiter;
  /// As in Limiter::check(). The bytes stay the caller's.
  std::string_view key;
  /// At least 0.
  std::int64_t cost = 1;
};

/// Takes from all or from none, in one atomic step. The answer: limit and remaining of the claim
/// with least remaining (the first such), the longest retry_after of those that deny (kNever if it
/// is any's), the longest reset_after and delay. From 1 to 16 claims. Throws std::invalid_argument,
/// nothing taken, where their stores are not one, two name the same limit and key, or the store
/// cannot take from all in one step: on a cluster all keys must share a slot, as equal keys do; on
/// Memcached only an `&` can.
SLUICE_EXPORT Decision check_all(std::span<const Claim> claims);
/// The same, of claims written down in the call.
inline Decision check_all(std::initializer_list<Claim> claims) {
  return check_all(std::span(claims.begin(), claims.size()));
}

/// check_all() without waiting, as the functions of Limiter that begin with async_.
SLUICE_EXPORT void async_check_all(std::span<const Claim> claims, DecisionCallback callback);
/// The same, of claims written down in the call.
inline void async_check_all(std::initializer_list<Claim> claims, DecisionCallback callback) {
  async_check_all(std::span(claims.begin(), claims.size()), std::move(callback));
}

}  // namespace sluice
