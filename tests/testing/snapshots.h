#pragma once

#include <span>
#include <string>
#include <string_view>

#include "stores/memory/snapshot.h"

namespace sluice::memory {

// Snapshots of the tests, in memory.

inline std::string written(MemoryStore& store, Instant now) {
  std::string bytes;
  write_snapshot(store, now, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

inline SnapshotSummary load(MemoryStore& store, Instant now, std::string_view bytes) {
  return load_snapshot(store, now, [&](std::span<char> room) {
    const std::size_t count = bytes.copy(room.data(), room.size());
    bytes.remove_prefix(count);
    return count;
  });
}

}  // namespace sluice::memory
