#pragma once

#include <cassert>
#include <cstdint>
#include <type_traits>

#include "core/instant.h"

namespace sluice {

/// The units admitted at one stamp. `total` counts all units up to and including this entry, modulo
/// 2^64. So the units between two entries are one subtraction, and the entries that still count,
/// and the instant at which enough have stopped counting, are found by binary search.
struct RingEntry {
  Instant stamp_ns = 0;
  std::uint64_t total = 0;

  friend bool operator==(const RingEntry&, const RingEntry&) = default;
};

/// A view of entries, oldest first, with strictly increasing stamps. The store owns the slots.
/// Default-constructed, it is the ring of a fresh key.
struct Ring {
  const RingEntry* slots = nullptr;
  std::uint32_t capacity = 0;
  std::uint32_t head = 0;
  std::uint32_t size = 0;
  /// The total before the oldest entry.
  std::uint64_t base = 0;

  /// REQUIRES: i < size.
  const RingEntry& at(std::uint32_t i) const {
    assert(i < size);
    const std::uint32_t slot = head + i;
    return slots[slot < capacity ? slot : slot - capacity];
  }
};

/// A change of a ring: drops all entries before entry `first`; the ring then has `count` entries,
/// of which the last is `newest`, overwritten or appended. A count of 0 leaves a fresh ring.
struct RingChange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  RingEntry newest;
};

/// Whether the state of an algorithm is a ring.
template <class A>
inline constexpr bool kIsRing = std::is_same_v<typename A::State, Ring>;

}  // namespace sluice
