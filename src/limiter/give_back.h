#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "limiter/limit_slot.h"
#include "limiter/timekeeper.h"

namespace sluice {

/// Gives back what nobody wants any more, and does not wait for a store elsewhere: refunds units
/// or releases a permit, and wakes who waits for it here. What the store does not answer is lost: a
/// permit until its lease ends, units until they come back by themselves.
///
/// A permit that nobody knows to have been given (Request::giver is kUnanswered) is released by the
/// store alone, and wakes nobody here: who waits would ask at once, of a store that does not answer
/// perhaps, and again. As long as a store elsewhere does not answer, and the slot lives, it is
/// asked again, up to a second later each time, until a lease is over: else the store, which may be
/// late and not lost, counts that permit for as long. At most kMostTriedAgain are, of a process,
/// and kMostTriedAgainOfOne of one limit: somebody who waits for a permit of a store that never
/// answers leaves another behind with each try, and is not to take the places of all other limits.
/// What is beyond is lost as above. A child of fork() counts its own alone.
///
/// `request` says what, of the limit `bound`, which is one of the slot's. A process that ends waits
/// up to a second for what is still on its way, so that what was given back at its end is.
/// `keeper`: for tests; else the process's.
void give_back(const std::shared_ptr<const LimitSlot>& slot, const BoundLimit& bound,
               const Request& request, std::shared_ptr<Timekeeper> keeper = nullptr) noexcept;

inline constexpr std::size_t kMostTriedAgain = 1'000;
inline constexpr std::size_t kMostTriedAgainOfOne = kMostTriedAgain / 10;

/// The same, on the calling thread: for a store that answers at once.
void give_back_now(const LimitSlot& slot, const BoundLimit& bound, const Request& request) noexcept;

}  // namespace sluice
