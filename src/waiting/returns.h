#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "waiting/limit_binding.h"
#include "waiting/timer_thread.h"

namespace sluice {

// What callers return to a store without waiting for it. `bound` is one of the binding's limits;
// `timer` is the process's where it is null. A process that ends waits up to a second for what is
// still under way, so that what was returned at its end is. Thread-safe.

/// Refunds units or releases a permit, once: what the store does not answer is lost, a permit until
/// its lease ends, units until they come back by themselves. `then` is called when it has answered,
/// or has not: before this returns, of a store that answers at once, else on the timer thread.
void give_back(const std::shared_ptr<const LimitBinding>& binding, const BoundLimit& bound,
               const Request& request, std::function<void()> then,
               std::shared_ptr<TimerThread> timer = nullptr);

/// The same on the calling thread, which waits for the answer.
void give_back_now(const LimitBinding& binding, const Request& request);

/// Releases a permit of which it is not known whether the store gave it. Else the store, which may
/// be late and not lost, would count it for a whole lease. As long as a store elsewhere does not
/// answer, and the binding lives, it is asked again, up to a second later each time, until a lease
/// is over.
///
/// No waiting caller is told: it would ask at once, of a store that does not answer perhaps, and
/// leave another permit to reclaim. At most kMostReclaimed are asked for again, of a process, and
/// kMostReclaimedOfOne of one limit, so that none takes the places of all others; what is beyond is
/// lost as above. A child of fork() counts its own alone.
void reclaim(const std::shared_ptr<const LimitBinding>& binding, const BoundLimit& bound,
             std::string_view key, PermitId permit, std::shared_ptr<TimerThread> timer = nullptr);

inline constexpr std::size_t kMostReclaimed = 1'000;
inline constexpr std::size_t kMostReclaimedOfOne = kMostReclaimed / 10;

}  // namespace sluice
