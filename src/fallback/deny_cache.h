#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/hash_secret.h"
#include "core/store.h"

namespace sluice {

/// Remembers what a store denied, to deny as much again without asking it, never for longer than
/// the store itself would: a denial with retry_after r of a request that was sent at t stands until
/// t + r for requests of the same key under the same numbers, of at least its cost and at most its
/// patience. Others have to ask. Each key's latest denial counts.
///
/// So a hot key asks the store for each admission, for one denial per retry_after, and for as many
/// more as were on their way when that denial came. A cost that no state admits (kNever) is asked
/// about each time.
///
/// What ends a denial earlier, a refund or a reset, is told by clear(). A denial of what was sent
/// before is not remembered any more: it may be older.
///
/// Keys are told apart by their hashes: two of k keys that are asked about while n denials stand
/// are confused with a probability of about n * k / 2^128.
///
/// Bounded: kEntries denials, 1.4 MiB; where a set of kWays is full, the one that ends first gives
/// way. Instants are those of a clock that is never set back, the same for all calls. Thread-safe;
/// takes no lock where nothing is remembered of the key.
class DenyCache {
 public:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kSets = 4096;
  static constexpr std::size_t kEntries = kWays * kSets;

  DenyCache();
  ~DenyCache();
  DenyCache(const DenyCache&) = delete;
  DenyCache& operator=(const DenyCache&) = delete;

  /// A key within a space, as its number tells it from others.
  struct Name {
    std::uint64_t space = 0;
    KeyHash key;
  };

  /// Whether something is remembered of the key: where not, denies() is false. Costs little.
  bool knows(const Name& name) const;

  /// Whether the request is denied now; if so, by this decision. REQUIRES: the name is its key's;
  /// it takes.
  bool denies(const Name& name, const Request& request, Instant now, Decision& decision) const;

  /// The store has denied this request, which was sent at this instant or somewhat later, never
  /// before. Nothing is remembered of a denial without an end.
  void remember(const Name& name, const Request& request, Instant sent, const Decision& denial);

  /// No denial of the key stands any more, and none of what was sent by now will.
  void clear(const Name& name, Instant now);

 private:
  struct Entry;
  struct Set;
  struct Place;
  /// The upper half of a key's hash, 0 for none. Beside the sets, so that to find that nothing is
  /// remembered of a key touches 128 KiB and not all of them.
  using Tag = std::atomic<std::uint64_t>;

  Entry* find(const Place& place) const;

  const std::unique_ptr<Tag[]> tags_;  // Written under the lock of their set.
  const std::unique_ptr<Set[]> sets_;
};

}  // namespace sluice
