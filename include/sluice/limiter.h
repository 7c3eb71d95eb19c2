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

/// Pass as `patience` to wait without a timeout.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

class LimiterCore;

/// One request of a batch.
struct Ask {
  /// As in check(). The caller keeps the bytes alive until the call returns.
  std::string_view key;
  /// At least 0.
  std::int64_t cost = 1;
};

/// Receives one decision per request of a batch. If the blocking call would have thrown, it also
/// receives the exception: requests that the store did not answer then have Source::kUnavailable;
/// if an argument was invalid, the vector is empty. Otherwise as DecisionCallback.
using BatchCallback = std::function<void(std::vector<Decision>, std::exception_ptr)>;

/// Receives a decision, and those of its parts or claims: parts[i] as by check_parts() or
/// check_all(). With an exception, the vector is empty. Otherwise as DecisionCallback.
using PartsCallback =
    std::function<void(const Decision& whole, std::vector<Decision> parts, std::exception_ptr)>;

/// Receives the reservation, or the exception that the blocking call would have thrown. Otherwise
/// as DecisionCallback.
using ReservationCallback = std::function<void(Reservation, std::exception_ptr)>;

/// What Limiter and ConcurrencyLimiter (permit.h) have in common: one limit that is applied to
/// keys, whose states are in one store. A key identifies a caller and can be any bytes; each key
/// has its own state. A limiter is cheap to construct. Those of the same limit name on one store
/// share the states of their keys.
///
/// Every decision is one atomic step of the store. If a number is out of range, the call throws
/// std::invalid_argument. If the store does not answer within its deadline, the failure policy of
/// the store's URL (on_failure=) answers, and Decision::source says so. With on_failure=local a
/// charge, refund or block is then carried out in this process; with allow and deny in none,
/// although its decision is allowed. With raise the call throws StoreError. Whatever answers, the
/// store may have carried out what it was sent.
///
/// Thread-safe, except for moving and destroying.
class SLUICE_EXPORT KeyedLimiter {
 public:
  /// The present state of the key. Always allowed; changes nothing.
  Decision peek(std::string_view key);

  /// Denies all requests for the key with a cost above 0, for `duration` (1 ns to 2^61 ns) from
  /// now, or until an earlier block ends if that is later. The key's state is kept, and permits
  /// that are held stay. reset() ends the block. Callers of this process that wait in acquire() or
  /// acquire_all() for the key are denied at once, and units that they had reserved are returned.
  /// (The retry_after of those in a queue is `duration`, or that of their last denial if it is
  /// longer.) Callers that come to acquire(), or to their queue, later are denied at once if the
  /// limit is a bucket, and wait for the end of the block otherwise: see docs/limits.md. The result
  /// is that of a peek() afterwards. A memory store without room for the key denies, and does not
  /// record the block: Decision::source is kFull.
  Decision block(std::string_view key, std::chrono::nanoseconds duration);

  /// Forgets the key's state and block: the key becomes fresh, as if never seen. Callers of this
  /// process that wait in acquire() or acquire_all() for the key ask again at once. Held permits
  /// expire, which their holders learn at the next renewal. Throws StoreError, under any failure
  /// policy, if a store on another machine does not answer: this process has then forgotten its
  /// local state, it is not known whether the store has, and callers that have reserved units go on
  /// waiting for them.
  void reset(std::string_view key);

  /// Replaces the limit by another one of the same name. Applies to this limiter only; others of
  /// the name keep theirs. Keys keep their states if algorithm, window, precision and anchor are
  /// the same (buckets and permits need only the same algorithm); otherwise they start fresh. A
  /// bucket keeps the time until it is full again: see docs/limits.md. Callers that wait in
  /// acquire() ask again at once, by the new limit; units that they had reserved are returned. Held
  /// permits stay.
  ///
  /// Throws std::invalid_argument if the name differs. Throws StoreError if the keys would have to
  /// start fresh and another limiter uses them, or the store is being charged with units that this
  /// process admitted for them while the store was lost (try again after a moment). Also if this
  /// limiter has had 10,000 limits: it keeps each, so that concurrent calls need no lock, and
  /// counts a limit again each time that its keys start fresh.
  void set_limit(Limit limit);

  /// The current limit. The reference is valid as long as the limiter.
  const Limit& limit() const;

  /// @name Asynchronous calls
  /// Each does what the blocking call of its name does, without blocking. The callback is called
  /// once, with the result or the exception of the blocking call. If the result is available at
  /// once, as with the memory store unless async_acquire() has to wait, the callback runs before
  /// the call returns; otherwise it runs on a thread of the library. Keys are copied, and the
  /// limiter may be destroyed while calls are pending. Requests that are pending when the store is
  /// destroyed complete as if the store did not answer, on the thread that lets go of its last
  /// share: that must hold no lock that callbacks take.
  /// @{

  /// peek()
  void async_peek(std::string_view key, DecisionCallback callback);
  /// block()
  void async_block(std::string_view key, std::chrono::nanoseconds duration,
                   DecisionCallback callback);
  /// reset()
  void async_reset(std::string_view key, DoneCallback callback);
  /// @}

 protected:
  /// For the constructors of Limiter and ConcurrencyLimiter.
  explicit KeyedLimiter(std::shared_ptr<LimiterCore> core);
  ~KeyedLimiter();
  KeyedLimiter(KeyedLimiter&&) noexcept;
  KeyedLimiter& operator=(KeyedLimiter&&) noexcept;

  /// Null once another limiter was made from this one.
  std::shared_ptr<LimiterCore> core_;
};

/// Applies one limit to keys, and answers: may this caller go ahead now? For `concurrency` limits
/// use ConcurrencyLimiter in permit.h.
class SLUICE_EXPORT Limiter : public KeyedLimiter {
 public:
  /// Throws StoreError if the store cannot keep this limit's keys, InvalidLimit if `limit` is a
  /// `concurrency` limit.
  Limiter(std::shared_ptr<Store> store, Limit limit);

  /// Takes `cost` units (at least 0) from `key` if they are free now; otherwise denies and changes
  /// nothing. A cost of 0 is a peek. Does not wait: a leaky bucket admits a caller on condition
  /// that it waits for Decision::delay before it goes ahead.
  Decision check(std::string_view key, std::int64_t cost = 1);

  /// check(), which also returns the decision of each part of an `a & b`: parts[i] is that of the
  /// i-th part; a limit without `&` has one part. If all admit, they describe the state after the
  /// charge; if one denies, the state as it is, with `allowed` and `retry_after` for this cost.
  /// (These calls do not use the deny cache.)
  ///
  /// Throws std::invalid_argument if `parts` has fewer elements than the limit has parts.
  Decision check_parts(std::string_view key, std::int64_t cost, std::span<Decision> parts);

  /// check() for many keys: decisions[i] is the answer to asks[i], with the same results as calls
  /// one after the other. A store on another machine gets them in one batch. Throws
  /// std::invalid_argument if `decisions` has fewer elements than `asks`.
  void check(std::span<const Ask> asks, std::span<Decision> decisions);

  /// Takes `cost` units and blocks until the caller may go ahead. `patience` is the timeout: the
  /// longest wait that the caller accepts, at least 0. Once admitted, the caller has waited for the
  /// `delay` of the decision already. If denied, Decision::ended tells why.
  ///
  /// Buckets reserve future units at once. For other limits the callers of this process wait in a
  /// queue for each key, and are served in order; limiters of one name whose numbers differ have
  /// queues of their own. (Processes that share a limit have no order: one that is farther from the
  /// store may get fewer units of it.)
  ///
  /// While callers wait, a process asks a store on another machine about once a second for each key
  /// whether another process has given something back, by a reset, by a refund or by ending a
  /// block: see "What waiting callers ask" in docs/redis.md. The first caller in a queue then takes
  /// it. A caller that has reserved units of a bucket goes ahead earlier only if the bucket would
  /// admit it anew and without a wait, as after a reset. Otherwise, and if the limit joins the
  /// bucket with a window or log, it goes ahead at the instant that it has reserved, even if one
  /// that came later has reserved an earlier one. It notices a refund by this process in the same
  /// way, so not with a memory store, which it does not ask again.
  ///
  /// Denies at once if the wait is known to be longer than `patience`, if a leaky_bucket that is
  /// the whole limit has no place in its queue, or if 100,000 callers wait already for keys of this
  /// limit, or as many for units that they have reserved. (Of an `a & b` only the wait of the
  /// binding part is known. So a caller may wait for that part, and then be denied by a bucket.)
  /// Also denies when `patience` has passed or `stop` is requested; units that it had reserved are
  /// then returned, as far as Reservation::cancel() returns them. Throws std::system_error, and has
  /// taken nothing, if the caller has to wait and the system cannot start the library's timer
  /// thread.
  Decision acquire(std::string_view key, std::int64_t cost = 1,
                   std::chrono::nanoseconds patience = kForever, std::stop_token stop = {});

  /// Takes `cost` units now; a bucket may also reserve units that become free within `patience` (at
  /// least 0). Does not wait: the result says when the caller may go ahead, and can be cancelled or
  /// settled, see Reservation.
  Reservation reserve(std::string_view key, std::int64_t cost = 1,
                      std::chrono::nanoseconds patience = kForever);

  /// Returns `units` (at least 0), most recently taken first, at most until the key is fresh. The
  /// result is that of a peek() afterwards.
  Decision refund(std::string_view key, std::int64_t units);

  /// Takes `units` (at least 0) unconditionally, for example to record usage that has already
  /// happened. The key may go into debt; requests are then denied until the debt is paid. Denied
  /// only if a memory store has no room for the key: nothing has changed then, and Decision::source
  /// is kFull. The result is that of a peek() afterwards.
  Decision charge(std::string_view key, std::int64_t units);

  /// Takes `units` (at least 0), or as many as remain. Decision::taken says how many. Denies if
  /// none remain.
  Decision take_up_to(std::string_view key, std::int64_t units);

  /// @name Asynchronous calls
  /// Each does what the blocking call of its name does, as the asynchronous calls of KeyedLimiter.
  /// A pending async_acquire() or async_reserve() keeps the store open.
  /// @{

  /// check()
  void async_check(std::string_view key, std::int64_t cost, DecisionCallback callback);
  /// check() for many keys
  void async_check(std::span<const Ask> asks, BatchCallback callback);
  /// check_parts()
  void async_check_parts(std::string_view key, std::int64_t cost, PartsCallback callback);
  /// reserve()
  void async_reserve(std::string_view key, std::int64_t cost, std::chrono::nanoseconds patience,
                     ReservationCallback callback);
  /// refund()
  void async_refund(std::string_view key, std::int64_t units, DecisionCallback callback);
  /// charge()
  void async_charge(std::string_view key, std::int64_t units, DecisionCallback callback);
  /// take_up_to()
  void async_take_up_to(std::string_view key, std::int64_t units, DecisionCallback callback);
  /// acquire()
  void async_acquire(std::string_view key, std::int64_t cost, std::chrono::nanoseconds patience,
                     DecisionCallback callback, std::stop_token stop = {});
  /// @}

 private:
  friend class AskedClaims;
};

/// One of the requests that check_all() decides together.
struct Claim {
  /// The limiter whose limit applies.
  Limiter& limiter;
  /// As in Limiter::check(). The caller keeps the bytes alive until the call returns.
  std::string_view key;
  /// At least 0.
  std::int64_t cost = 1;
};

/// Claims that are listed in the call, check_all({{per_host, host}, {total, ""}}), or that a
/// vector, an array or a span holds. Refers to them.
class ClaimList : public std::span<const Claim> {
 public:
  /// Those of the vector or array.
  using std::span<const Claim>::span;
  /// Those of the span.
  ClaimList(std::span<const Claim> claims) : span(claims) {}
  /// Those listed in the call.
  ClaimList(std::initializer_list<Claim> claims) : span(claims.begin(), claims.size()) {}
};

/// Takes from all claims or from none, in one atomic step of the store. The result is that of the
/// binding claim, Decision::binding, with the longest delay of all: if any denies, of the denying
/// one with the longest retry_after; if all admit, of the one with the least remaining.
///
/// Throws std::invalid_argument, and takes nothing, if there are not 1 to 16 claims, if they use
/// different stores, if two have the same limit and key, or if the store cannot take from all of
/// them in one step: in a Redis cluster all keys must be in one slot, as equal keys are; Memcached
/// cannot (join limits for one key with `&` instead).
SLUICE_EXPORT Decision check_all(ClaimList claims);

/// The same, and also returns the decision of each claim: parts[i] is that of claims[i]. If all
/// admit, they describe the state after the charge; if one denies, the state as it is, with
/// `allowed` and `retry_after` for the cost of the claim. Also throws std::invalid_argument if
/// `parts` has fewer elements than `claims`.
SLUICE_EXPORT Decision check_all(ClaimList claims, std::span<Decision> parts);

/// Takes from all claims or from none, and blocks until the caller may go ahead with all of them.
/// As Limiter::acquire(): `patience` is the timeout; buckets reserve future units, and for other
/// limits the callers of this process wait in order, each in the queue of the claim that denies it
/// for longest. A caller that is the first there asks for all claims again, and goes to the queue
/// of another claim, at its end, if that now denies for longest: while callers of single claims
/// keep coming, it may wait until its timeout. It does not wait behind those in the queues of its
/// other claims, and may take units for which they wait. A block of any of its keys denies it; a
/// reset of any, or another limit, lets the first caller of the queue in which it waits ask again.
/// A caller that has reserved units goes ahead at the instant that it has reserved, whatever other
/// processes give back meanwhile.
/// If a caller is stopped while it waits for reserved units, they are returned; retry_after is then
/// the rest of that wait, and the other numbers are those of the claim that was binding. Throws as
/// check_all(). What only the store can tell (that keys are in different slots), it throws when it
/// first asks the store, which may be after a wait behind other callers.
SLUICE_EXPORT Decision acquire_all(ClaimList claims, std::chrono::nanoseconds patience = kForever,
                                   std::stop_token stop = {});

/// Takes from all claims or from none, now or, of buckets, in the future: as Limiter::reserve().
/// The i-th reservation is of claims[i]; all are granted or none is. Each has the decision() of all
/// claims together, as of check_all(), so it is enough to wait for one of them. Each is settled on
/// its own. Throws as check_all().
SLUICE_EXPORT std::vector<Reservation> reserve_all(ClaimList claims,
                                                   std::chrono::nanoseconds patience = kForever);

/// check_all() without blocking, like the async_ functions of Limiter.
SLUICE_EXPORT void async_check_all(ClaimList claims, DecisionCallback callback);

/// The same, with the decision of each claim.
SLUICE_EXPORT void async_check_all_parts(ClaimList claims, PartsCallback callback);

}  // namespace sluice
