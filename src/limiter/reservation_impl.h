#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "limiter/limiter_core.h"
#include "sluice/reservation.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// Units that were taken, and from where.
class ReservedUnits {
 public:
  /// `bound` is the one of those that the core has had by which they were taken.
  ReservedUnits(LimiterCore core, const BoundLimit& bound, std::string_view key, std::int64_t units,
                Source giver)
      : core_(std::move(core)), bound_(bound), key_(key), units_(units), giver_(giver) {}

  /// Settles for so many units: gives back to the giver what is less, or charges the store what is
  /// more. Answers as a peek afterwards.
  Decision settle(std::int64_t actual) const;
  /// The same without waiting: it may be destroyed before the answer comes.
  void settle_later(std::int64_t actual, DecisionCallback callback) const;

 private:
  Request settling(std::int64_t actual) const;

  const LimiterCore core_;
  const BoundLimit& bound_;
  const std::string key_;
  const std::int64_t units_;
  const Source giver_;
};

/// Waits on the calling thread until `ready`. False where `stop` ended the wait.
bool wait_until(TimerThread::TimePoint ready, std::stop_token stop);

class Reservation::Impl final : public ReservedUnits {
 public:
  using ReservedUnits::ReservedUnits;
};

}  // namespace sluice
