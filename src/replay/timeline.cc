#include "replay/timeline.h"

#include <algorithm>
#include <limits>

namespace sluice::replay {
namespace {

constexpr std::int64_t kMs = kMillisecondNs;

constexpr std::array kWidths = {
    kMs,         5 * kMs,       10 * kMs,       50 * kMs,       100 * kMs,
    500 * kMs,   kSecondNs,     5 * kSecondNs,  15 * kSecondNs, 30 * kSecondNs,
    kMinuteNs,   5 * kMinuteNs, 15 * kMinuteNs, 30 * kMinuteNs, kHourNs,
    3 * kHourNs, 6 * kHourNs,   12 * kHourNs,   kDayNs};

/// Adds `from` to `to`.
void join(StepCounts& to, const StepCounts& from) {
  to.requests += from.requests;
  for (std::size_t limit = 0; limit < kMaxCharted; ++limit) {
    to.denied[limit] += from.denied[limit];
    to.level[limit] = std::min(to.level[limit], from.level[limit]);
  }
}

}  // namespace

std::int64_t TimeSteps::include(Instant time_ns) {
  first_ns_ = is_empty_ ? time_ns : std::min(first_ns_, time_ns);
  last_ns_ = is_empty_ ? time_ns : std::max(last_ns_, time_ns);
  is_empty_ = false;
  std::int64_t factor = 1;
  while (step(last_ns_) - step(first_ns_) >= kMaxSteps) {
    factor *= next_factor();
    widen();
  }
  return factor;
}

std::int64_t TimeSteps::next_factor() const {
  const auto next = std::upper_bound(kWidths.begin(), kWidths.end(), width_ns_);
  return next == kWidths.end() ? 2 : *next / width_ns_;
}

StepCounts& Timeline::at(std::int64_t step) {
  // Requests come in the order of time, or nearly so.
  auto place = steps_.end();
  while (place != steps_.begin() && std::prev(place)->step >= step) --place;
  if (place == steps_.end() || place->step != step) {
    StepCounts fresh{.step = step};
    fresh.level.fill(std::numeric_limits<std::int64_t>::max());
    place = steps_.insert(place, fresh);
  }
  return *place;
}

void Timeline::widen(std::int64_t factor) {
  std::size_t kept = 0;
  for (const StepCounts& counts : steps_) {
    const std::int64_t step = counts.step / factor;
    if (kept > 0 && steps_[kept - 1].step == step) {
      join(steps_[kept - 1], counts);
    } else {
      steps_[kept] = counts;
      steps_[kept++].step = step;
    }
  }
  steps_.resize(kept);
}

}  // namespace sluice::replay
