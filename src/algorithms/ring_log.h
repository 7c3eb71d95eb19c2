#pragma once

#include <algorithm>
#include <cstdint>

#include "core/algorithm.h"
#include "core/ring.h"

namespace sluice {

/// What sliding_log and sliding_window share: admitted units with stamps, each of which counts for
/// `lifetime_ns` from its stamp. They differ only in how an instant becomes a stamp.
struct RingLimit {
  std::int64_t limit = 1;
  std::int64_t lifetime_ns = 1;
};

/// The instant at which a ring judges a call: a key's clock never runs backwards.
inline Instant ring_judged_at(const Ring& ring, Instant now) {
  return ring.size == 0 ? now : std::max(now, ring.at(ring.size - 1).stamp_ns);
}

/// In both, the change that goes with a denial or a peek means nothing, as nobody commits it.

/// Takes from a ring at `stamp_ns`, which is ring_judged_at() or aligned down from it, not below
/// the newest entry. O(log entries).
Step<RingChange> ring_take(const RingLimit& params, const Ring& ring, const Call& call,
                           Instant stamp_ns);

/// Takes whatever there is, as ring_take() otherwise. What counts is at most kMaxCount. Each entry
/// of what is admitted has a unit of the limit, but charges make entries beyond it: where there are
/// most_entries() already, the newest one's units count from now, too.
Step<RingChange> ring_charge(const RingLimit& params, const Ring& ring, const Call& call,
                             Instant stamp_ns);

/// The most entries of a ring, however much is charged. Few enough that a small limit's value stays
/// small, since a store may read it as a whole; more than a sliding_window has sub-windows.
constexpr std::int64_t most_entries(std::int64_t limit) {
  return std::max<std::int64_t>(limit, 1'024);
}

/// Gives back the newest counted units first. O(log entries).
Step<RingChange> ring_refund(const RingLimit& params, const Ring& ring, const Call& call);

}  // namespace sluice
