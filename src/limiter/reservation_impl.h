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
  Impl(std::shared_ptr<const LimitSlot> slot, const Request& request, Source giver);

  /// Gives so many units back to who gave them, or charges them to the store. Answers as a peek
  /// afterwards.
  Decision refund(std::int64_t units) const;
  Decision charge(std::int64_t units) const;

  std::int64_t units() const { return request_.cost; }

 private:
  Decision ask(Operation operation, std::int64_t units) const;

  const std::shared_ptr<const LimitSlot> slot_;  // Holds the request's limit and its space.
  const std::string key_;
  Request request_;
};

}  // namespace sluice
