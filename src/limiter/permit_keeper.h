#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/lock.h"
#include "limiter/held_permit.h"
#include "limiter/limit_slot.h"
#include "limiter/timekeeper.h"
#include "limiter/waiting_lines.h"

namespace sluice {

/// What a ConcurrencyLimiter stands on: its limit, and the permits of it that are held in this
/// process, each of which is renewed when a third of its lease is over. It counts them, and stays
/// until they have gone where its limiter goes first.
///
/// They stand in a list in the order in which they are due, and while their renewal is under way in
/// another, in the order in which they lapse: so a store that takes its time delays nobody who is
/// to be told. As leases are equal (until the limit changes), the one granted last is due last: to
/// enter and to strike one out costs the same however many there are. The timekeeper has one entry
/// for all of them, while there are any: for the first one, or for one that was the first and has
/// gone.
///
/// Thread-safe.
class PermitKeeper : public std::enable_shared_from_this<PermitKeeper> {
 public:
  using TimePoint = Timekeeper::TimePoint;

  /// As LimitSlot. `keeper`: for tests; else the process's, from the first permit on.
  PermitKeeper(std::shared_ptr<Store> store, Limit limit,
               std::shared_ptr<Timekeeper> keeper = nullptr);
  PermitKeeper(const PermitKeeper&) = delete;
  PermitKeeper& operator=(const PermitKeeper&) = delete;

  LimitSlot& slot() { return slot_; }
  /// A share of the slot.
  std::shared_ptr<const LimitSlot> shared_slot() { return {shared_from_this(), &slot_}; }
  WaitingLines& lines() { return slot_.bound().space->companion<WaitingLines>(); }
  /// Whether other processes share its permits.
  bool is_shared() const { return is_shared_; }

  /// What is to be called before a permit is asked for: from then on nothing stands in the way of
  /// its renewal. Throws std::system_error where the system gives no thread.
  void prepare();
  TimePoint now() const;

  /// The time from which the lease of a permit counts that is asked for now: for a lease of a
  /// second and more by a clock that costs less, and is early by a few milliseconds at most.
  TimePoint asked_at(const BoundLimit& bound) const;

  /// Looks after a permit from now on. The result is a share of it. Where the system gives no
  /// memory, throws: it is then given back.
  HeldPermit* hold(std::string_view key, const Outcome& granted);

  /// The limiter goes: from now on this holds itself as long as there are permits.
  void outlive_limiter();

  /// As give_back(), of one of its limits.
  void give_back(const BoundLimit& bound, const Request& request) noexcept;

 private:
  friend class HeldPermit;
  class Renewal;
  struct Drop {
    void operator()(HeldPermit* permit) const { permit->drop(); }
  };
  using Share = std::unique_ptr<HeldPermit, Drop>;

  // With the lock held. Where the system gives no memory, throws: what was armed stays so.
  void arm(TimePoint when);
  // With the lock held:
  Share take(HeldPermit& permit);

  /// One permit less. The caller does nothing with this any more.
  void part();
  void look_after();
  void settle(const Renewal& renewal);
  void lapse(HeldPermit& permit);

  LimitSlot slot_;
  const bool is_shared_;
  const std::uint64_t generation_ = fork_generation();
  std::once_flag prepared_;
  std::shared_ptr<Timekeeper> keeper_;
  Lock mutex_;
  // Guarded by mutex_:
  HeldPermit::List due_;
  HeldPermit::List renewing_;
  std::size_t permits_ = 0;
  bool is_alone_ = false;               // Its limiter has gone.
  std::shared_ptr<PermitKeeper> self_;  // Where it is alone, and there are permits.
  bool is_armed_ = false;
  Timekeeper::Timer timer_;
};

}  // namespace sluice
