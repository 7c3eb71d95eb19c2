#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "limiter/limit_slot.h"
#include "sluice/reservation.h"

namespace sluice {

/// What is taken, and from where.
class Reservation::Impl {
 public:
  /// `bound` is one of the slot's.
  Impl(std::shared_ptr<const LimitSlot> slot, const BoundLimit& bound, const Request& request,
       Source giver);

  /// Settles for so many units: gives back to who gave them what is less, or charges the store what
  /// is more. Answers as a peek afterwards.
  Decision settle(std::int64_t actual) const;
  /// The same without waiting: it may go before the answer comes.
  void settle_later(std::int64_t actual, DecisionCallback told) const;

 private:
  Request settling(std::int64_t actual) const;

  const std::shared_ptr<const LimitSlot> slot_;
  const BoundLimit& bound_;  // What the request is about.
  const std::string key_;
  Request request_;
};

}  // namespace sluice
