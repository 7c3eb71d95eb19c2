#pragma once

#include <algorithm>
#include <cstdint>

#include "core/algorithm.h"
#include "core/ring.h"

namespace sluice {

/// The parameters that sliding_log and sliding_window share. Both keep admitted units with stamps;
/// a unit counts for `lifetime_ns` from its stamp. They differ only in how they make a stamp of an
/// instant.
struct RingLimit {
  std::int64_t limit = 1;
  std::int64_t lifetime_ns = 1;
};

/// The instant at which a call is decided: `now`, but not before the newest entry, since time never
/// runs backwards for a key.
inline Instant ring_judged_at(const Ring& ring, Instant now) {
  return ring.size == 0 ? now : std::max(now, ring.at(ring.size - 1).stamp_ns);
}

/// In ring_take() and ring_charge(), the change of a denial or a peek has no meaning, since it is
/// not committed.

/// Takes units from a ring at `stamp_ns`, which is ring_judged_at(), or that rounded down but not
/// below the newest entry. O(log entries).
Step<RingChange> ring_take(const RingLimit& params, const Ring& ring, const Call& call,
                           Instant stamp_ns);

/// Takes units unconditionally, otherwise as ring_take(). At most kMaxCount units count. Admitted
/// requests make at most as many entries as the limit has units, but charges can make more: once
/// there are most_entries(), the newest entry takes the charge and moves to `stamp_ns`.
Step<RingChange> ring_charge(const RingLimit& params, const Ring& ring, const Call& call,
                             Instant stamp_ns);

/// The most entries of a ring, however much is charged. It is small, so that the value of a small
/// limit stays small, since a store may read it as a whole; and it is more than the sub-windows of
/// a sliding_window.
constexpr std::int64_t most_entries(std::int64_t limit) {
  return std::max<std::int64_t>(limit, 1'024);
}

/// Removes the newest counted units first. O(log entries).
Step<RingChange> ring_refund(const RingLimit& params, const Ring& ring, const Call& call);

}  // namespace sluice
