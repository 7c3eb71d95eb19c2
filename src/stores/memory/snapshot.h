#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "core/instant.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// A snapshot could not be written or loaded; what() is one sentence.
class SnapshotError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a snapshot has, and what became of it.
struct SnapshotSummary {
  /// When the snapshot was begun, by the wall clock.
  Instant written_at = 0;
  /// By how much the store's clock was ahead of the wall clock, when it was written or, if it was
  /// loaded, is now; negative if it is behind.
  std::int64_t clock_ahead_ns = 0;
  /// The keys that were written or loaded.
  std::uint64_t keys = 0;
  /// When it was loaded: the keys that are as if never seen by now, and those for which the store
  /// has no room.
  std::uint64_t fresh = 0;
  std::uint64_t without_room = 0;
};

/// Writes some bytes, or throws.
using WriteBytes = std::function<void(std::string_view bytes)>;
/// Reads as many bytes as there is room for, or fewer at the end; or throws.
using ReadBytes = std::function<std::size_t(std::span<char> room)>;

/// Writes the keys' states, the limits that judge them, and the secret under which the keys were
/// hashed, without which no key could be found again. So a snapshot is as secret as that is: see
/// HashSecret.
///
/// A snapshot is a line that names the format and its version, and then blocks: a header, keys and
/// the limits that these are judged by, and an end that counts them. Each block has a checksum that
/// its number is part of. So every byte that is missing, changed or out of place is found.
///
/// Other threads go on deciding: a shard is copied in steps of a few microseconds, each with the
/// shard's lock. A step has 32 lines, or fewer if these have more than 256 KiB of records. A key of
/// more is a step, which takes longest with kMaxParts sliding_logs of 65,536 entries: 8 MiB, half a
/// millisecond. So a key has the state of some instant between the first step and the last, and
/// what is charged together meanwhile may be written before and after.
///
/// `now` is the time by the store's clock, and `wall` that by the wall clock. Throws what `write`
/// throws.
SnapshotSummary write_snapshot(MemoryStore& store, Instant now, Instant wall,
                               const WriteBytes& write);

/// Gives a new store the states of a snapshot, and its secret. A limit that is opened later finds
/// its states by its name, as if the store had never been away. REQUIRES: no space of the store has
/// been opened, and no other thread uses it.
///
/// States have instants of the clock of the store that was written. This store's clock goes on from
/// there, as much later as the wall clock, which shows `wall`, is later than it was then. If it was
/// ahead of the wall clock, it waits for that. So if the wall clock was set while that store was
/// used, no limit admits more. If it was set forward between, limits admit as much too early; if it
/// was set back, no time has passed between. Keys that are as if never seen by now are left out. If
/// the store has less room than the one that was written, keys are forgotten as for new keys: at
/// first those that do not deny.
///
/// Throws SnapshotError if it is no snapshot, or one of another version, or damaged, or if the
/// store has no room for its limits, and what `read` throws. The store is then of no use.
SnapshotSummary load_snapshot(MemoryStore& store, Instant wall, const ReadBytes& read);

}  // namespace sluice
