#include "algorithms/state_codec.h"

namespace sluice {

bool is_ring(const std::vector<RingEntry>& entries) {
  RingEntry before{.stamp_ns = -1, .total = 0};
  return std::ranges::all_of(entries, [&](const RingEntry& entry) {
    const bool follows = entry.stamp_ns > before.stamp_ns && entry.stamp_ns < kEndOfTime &&
                         entry.total > before.total &&
                         entry.total <= static_cast<std::uint64_t>(kMaxCount);
    before = entry;
    return follows;
  });
}

bool is_permit_list(const std::vector<PermitEntry>& permits) {
  Instant before = 0;
  return std::ranges::all_of(permits, [&](const PermitEntry& permit) {
    const bool follows =
        permit.expires_ns >= before && permit.expires_ns <= kLastEnd && permit.id != 0;
    before = permit.expires_ns;
    return follows;
  });
}

}  // namespace sluice
