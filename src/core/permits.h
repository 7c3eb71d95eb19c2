#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "core/instant.h"
#include "core/operation.h"

namespace sluice {

/// A permit, which counts until it expires.
struct PermitEntry {
  Instant expires_ns = 0;
  PermitId id = 0;

  friend bool operator==(const PermitEntry&, const PermitEntry&) = default;
};

/// A view of a key's permits, ordered by expiry. The store owns them. Default-constructed, it is
/// the list of a fresh key.
using PermitList = std::span<const PermitEntry>;

/// A change to a list of permits.
struct PermitChange {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// The number of expired permits, which are the first ones.
  std::uint32_t expired = 0;
  /// The index in the list before the change, at least `expired`, of a permit to remove; or kNone.
  std::uint32_t gone = kNone;
  /// A permit to add, if its id is not 0.
  PermitEntry added;

  /// The number of permits after the change, if there are `size` before.
  std::uint32_t size_after(std::uint32_t size) const {
    return size - expired - (gone == kNone ? 0 : 1) + (added.id == 0 ? 0 : 1);
  }
};

/// Applies a change to the first `size` of `entries`. Returns their number afterwards.
/// REQUIRES: entries.size() >= change.size_after(size).
inline std::uint32_t commit_permits(std::span<PermitEntry> entries, std::uint32_t size,
                                    const PermitChange& change) {
  assert(entries.size() >= change.size_after(size));
  const auto begin = entries.begin();
  if (change.gone != PermitChange::kNone) {
    std::move(begin + change.gone + 1, begin + size, begin + change.gone);
    --size;
  }
  if (change.expired > 0) {
    std::move(begin + change.expired, begin + size, begin);
    size -= change.expired;
  }
  if (change.added.id == 0) return size;
  // Usually it is the last. It need not be: leases may differ, and clocks may be set back.
  std::uint32_t place = size++;
  for (; place > 0 && entries[place - 1].expires_ns > change.added.expires_ns; --place) {
    entries[place] = entries[place - 1];
  }
  entries[place] = change.added;
  return size;
}

/// Whether the state of an algorithm is a list of permits.
template <class A>
inline constexpr bool kIsPermits = std::is_same_v<typename A::State, PermitList>;

}  // namespace sluice
