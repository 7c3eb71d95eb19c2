#include "net/backoff.h"

#include <algorithm>
#include <limits>

namespace sluice {

std::chrono::nanoseconds Backoff::after_failure(std::uint32_t random) {
  troubled_ = true;
  const std::chrono::nanoseconds pause =
      std::clamp<std::chrono::nanoseconds>(next_, bounds_.least, bounds_.most);
  next_ = std::min<std::chrono::nanoseconds>(2 * pause, bounds_.most);
  constexpr double kRange = std::numeric_limits<std::uint32_t>::max();
  const double less = static_cast<double>(pause.count()) / 2 * (random / kRange);
  return pause - std::chrono::nanoseconds(static_cast<std::int64_t>(less));
}

std::chrono::nanoseconds Backoff::after_loss(std::chrono::nanoseconds was_up_for,
                                             std::uint32_t random) {
  forget_if_lasting(was_up_for);
  if (troubled_) return after_failure(random);
  troubled_ = true;
  return std::chrono::nanoseconds(0);
}

void Backoff::forget_if_lasting(std::chrono::nanoseconds was_up_for) {
  if (was_up_for < bounds_.most) return;
  troubled_ = false;
  next_ = std::chrono::nanoseconds(0);
}

}  // namespace sluice
