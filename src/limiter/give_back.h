#pragma once

#include <memory>
#include <string_view>

#include "limiter/limit_slot.h"

namespace sluice {

/// Gives back what nobody wants any more, and does not wait for a store elsewhere: refunds units
/// or releases a permit, and wakes who waits for it here. What the store does not answer is lost: a
/// permit until its lease ends, units until they come back by themselves.
///
/// `request` says what, of the limit `bound`, which is one of the slot's. A process that ends waits
/// up to a second for what is still on its way, so that what was given back at its end is.
void give_back(const std::shared_ptr<const LimitSlot>& slot, const BoundLimit& bound,
               const Request& request) noexcept;

/// The same, on the calling thread: for a store that answers at once.
void give_back_now(const LimitSlot& slot, const BoundLimit& bound, const Request& request) noexcept;

}  // namespace sluice
