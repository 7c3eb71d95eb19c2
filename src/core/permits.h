#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "core/instant.h"
#include "core/operation.h"

namespace sluice {

/// A permit that counts until it lapses.
struct PermitEntry {
  Instant lapses_ns = 0;
  PermitId id = 0;

  friend bool operator==(const PermitEntry&, const PermitEntry&) = default;
};

/// A view of a key's permits, in the order in which they lapse. The store owns them.
/// Default-constructed: a fresh key's.
using PermitList = std::span<const PermitEntry>;

/// A change to a list of permits.
struct PermitChange {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// So many have lapsed, the first ones.
  std::uint32_t lapsed = 0;
  /// The place in the list as it was, at least `lapsed`, of one that goes; or kNone.
  std::uint32_t gone = kNone;
  /// One that comes, if its id is not 0.
  PermitEntry added;

  /// How many there are afterwards, of so many.
  std::uint32_t size_after(std::uint32_t size) const {
    return size - lapsed - (gone == kNone ? 0 : 1) + (added.id == 0 ? 0 : 1);
  }
};

/// Carries a change out on the first `size` of `entries`; how many there are then.
/// REQUIRES: there is room for change.size_after(size).
inline std::uint32_t commit_permits(std::span<PermitEntry> entries, std::uint32_t size,
                                    const PermitChange& change) {
  const auto begin = entries.begin();
  if (change.gone != PermitChange::kNone) {
    std::move(begin + change.gone + 1, begin + size, begin + change.gone);
    --size;
  }
  if (change.lapsed > 0) {
    std::move(begin + change.lapsed, begin + size, begin);
    size -= change.lapsed;
  }
  if (change.added.id == 0) return size;
  // Leases may differ, and clocks be set back: most often it is the last nevertheless.
  std::uint32_t place = size++;
  for (; place > 0 && entries[place - 1].lapses_ns > change.added.lapses_ns; --place) {
    entries[place] = entries[place - 1];
  }
  entries[place] = change.added;
  return size;
}

/// Whether an algorithm keeps permits.
template <class A>
inline constexpr bool kIsPermits = std::is_same_v<typename A::State, PermitList>;

}  // namespace sluice
