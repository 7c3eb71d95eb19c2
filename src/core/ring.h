#pragma once

#include <cstdint>
#include <type_traits>

#include "core/instant.h"

namespace sluice {

/// What was admitted at one stamp. `total` counts every unit admitted up to and with this entry,
/// modulo 2^64, so that the units between two entries are one subtraction, and both "what still
/// counts?" and "when have enough gone?" are binary searches.
struct RingEntry {
  Instant stamp_ns = 0;
  std::uint64_t total = 0;

  friend bool operator==(const RingEntry&, const RingEntry&) = default;
};

/// A view of admitted entries, oldest first, stamps strictly increasing. The store owns the slots.
/// Default-constructed: a fresh key's.
struct Ring {
  const RingEntry* slots = nullptr;
  std::uint32_t capacity = 0;
  std::uint32_t head = 0;
  std::uint32_t size = 0;
  /// The total before the oldest entry.
  std::uint64_t base = 0;

  /// REQUIRES: i < size.
  const RingEntry& at(std::uint32_t i) const {
    const std::uint32_t slot = head + i;
    return slots[slot < capacity ? slot : slot - capacity];
  }
};

/// A change to a ring: forget all before entry `first`, keep so many that the ring then has `count`
/// entries, the last of which is `newest` (in place of what stood there, or appended). A count of 0
/// leaves a fresh ring.
struct RingChange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  RingEntry newest;
};

/// Whether an algorithm keeps a ring.
template <class A>
inline constexpr bool kIsRing = std::is_same_v<typename A::State, Ring>;

}  // namespace sluice
