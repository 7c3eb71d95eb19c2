#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/export.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice {

class HeldPermit;

/// The right to be one of those at work, from ConcurrencyLimiter. It is renewed every third of its
/// lease for as long as it is held, and given back when it goes. Its holder must stop when it
/// lapses: where the store lost it or cannot be reached for a whole lease, or this process stood
/// still for so long; others may have its place by then. Time for which the whole machine is
/// suspended is not counted here, though a store elsewhere counts it: afterwards held() may say yes
/// to what has lapsed there, until the next renewal is answered, begun within a third of the lease.
///
/// Thread-safe, but for moving and destroying.
class SLUICE_EXPORT Permit {
 public:
  /// Not granted.
  Permit() = default;
  Permit(Permit&&) noexcept;
  Permit& operator=(Permit&&) noexcept;
  /// As release().
  ~Permit();

  /// Whether it was granted.
  explicit operator bool() const { return decision_.allowed; }
  /// What the store said when it was asked for. Where it was not granted, retry_after is the wait
  /// until the first of those held lapses, or, from try_acquire() where others in this process wait
  /// for one, the last. They may be given back earlier, and stay longer as they are renewed.
  const Decision& decision() const { return decision_; }

  /// Whether it still counts: granted, not let go of, and not lapsed.
  bool held() const;

  /// Tells when it lapses: on a thread of the library, or at once if it has lapsed. The callback
  /// does little and throws nothing. Each is called at most once; before it lapses, only the last
  /// one given counts. None is called after release() or ignore() has returned: both wait for one
  /// that runs, unless it is the caller.
  void on_lapse(std::function<void()> callback);

  /// Gives it back: the first in line may go ahead. Nothing where it is not held. Does not wait for
  /// a store elsewhere, but for a callback of on_lapse().
  void release();

  /// Lets go of it without giving it back: it counts until its lease ends. Waits as release().
  void ignore();

 private:
  friend class ConcurrencyLimiter;
  Decision decision_;
  HeldPermit* impl_ = nullptr;  // Not null where it was granted: one share of it.
};

/// Given the permit, or where ConcurrencyLimiter would have thrown, the exception. As
/// DecisionCallback.
using PermitCallback = std::function<void(Permit, std::exception_ptr)>;

/// At most so many at the same time, in all processes that share the store.
///
///     sluice::ConcurrencyLimiter jobs(store, sluice::Limit("concurrency 4 lease=30s", "jobs"));
///     if (sluice::Permit permit = jobs.acquire("gpu", 3s)) work();
///
/// The callers of one process are served in order, one line for each key, and woken by what is
/// released in it; by what is released elsewhere as soon as Redis tells, else by asking again with
/// growing pauses. Where all permits are in use and a store elsewhere has them, a process that has
/// passed at least 4 on to itself, one right after the other, leaves what it gives back to others
/// for a moment, whether there are any or not: for 4 ms after 100 ms of that, or, where the store
/// does not tell them of it, for 100 ms after 2 s. Who crashes while holding a permit keeps it from
/// others for its lease at most.
///
/// Thread-safe, but for moving and destroying. Where the store does not answer, its policy does, as
/// for a Limiter.
class SLUICE_EXPORT ConcurrencyLimiter {
 public:
  /// Throws StoreError where the store cannot keep this limit's keys, InvalidLimit where the limit
  /// is no concurrency.
  ConcurrencyLimiter(std::shared_ptr<Store> store, Limit limit);
  /// Permits that are held stay so, and those who wait go on waiting.
  ~ConcurrencyLimiter();
  ConcurrencyLimiter(ConcurrencyLimiter&&) noexcept;
  ConcurrencyLimiter& operator=(ConcurrencyLimiter&&) noexcept;

  /// A permit if there is one now and nobody waits for it.
  Permit try_acquire(std::string_view key);

  /// Waits in line for one, at most for `patience` (at least 0) and until `stop`. Not granted, at
  /// once, where 100,000 of this process wait already for permits of this limit, all keys together.
  Permit acquire(std::string_view key, std::chrono::nanoseconds patience,
                 std::stop_token stop = {});

  /// As acquire(), without waiting.
  void async_acquire(std::string_view key, std::chrono::nanoseconds patience,
                     PermitCallback callback, std::stop_token stop = {});

  /// How the key stands: remaining is how many more permits there are.
  Decision peek(std::string_view key);

  /// Gives nobody a permit from now on for `duration` (1 ns to 2^61 ns); those held stay.
  Decision block(std::string_view key, std::chrono::nanoseconds duration);

  /// Forgets the key: permits that are held lapse, as their holders learn when they are renewed.
  /// Throws as Limiter::reset().
  void reset(std::string_view key);

  /// As peek(), block() and reset(), without waiting: as the functions of Limiter of these names.
  void async_peek(std::string_view key, DecisionCallback callback);
  /// As async_peek().
  void async_block(std::string_view key, std::chrono::nanoseconds duration,
                   DecisionCallback callback);
  /// As async_peek().
  void async_reset(std::string_view key, DoneCallback callback);

  /// Another number or lease from now on, as Limiter::set_limit(). Permits that are held stay.
  void set_limit(Limit limit);
  /// As Limiter::limit().
  const Limit& limit() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace sluice
