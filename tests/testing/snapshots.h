#pragma once

#include <span>
#include <string>
#include <string_view>

#include "stores/memory/snapshot.h"

namespace sluice::memory {

// Snapshots of the tests, in memory.

inline std::string written(MemoryStore& store, Instant now, Instant wall) {
  std::string bytes;
  write_snapshot(store, now, wall, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

// While the store's clock and the wall clock agree.
inline std::string written(MemoryStore& store, Instant now) {
  return written(store, now, now);
}

inline SnapshotSummary load(MemoryStore& store, Instant wall, std::string_view bytes) {
  return load_snapshot(store, wall, [&](std::span<char> room) {
    const std::size_t count = bytes.copy(room.data(), room.size());
    bytes.remove_prefix(count);
    return count;
  });
}

}  // namespace sluice::memory
