#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/hash_secret.h"
#include "core/store.h"

namespace sluice {

/// Remembers denials of a store, so that equal requests are denied without asking it. A denial with
/// retry_after r of a request that was sent at t stands until t + r. It applies to requests of the
/// same key under the same numbers that the store would deny too: a take of at least its cost and
/// at most its patience (the longest delay that the caller accepts), and a take of what remains if
/// a single unit was denied. Other requests must ask the store, and so must requests that want the
/// decisions of their parts. Only the latest denial of each key is remembered.
///
/// While the store answers, a denial is used until t + hold at most, so that a refund or a reset by
/// another process is seen after that time. While the store does not answer, it is used as long as
/// it stands.
///
/// So for a hot key the store is asked for each admission, for one denial per retry_after or hold,
/// and for the requests that were in flight when that denial arrived. A denial without an end
/// (retry_after kNever: no state admits the cost) is not remembered.
///
/// A refund or a reset in this process may end a denial earlier: then the caller calls clear().
/// After that, denials of requests that were sent before it are not remembered. What another
/// process gives back may end it too: that shows when the store allows what was denied, and the
/// caller then calls refute().
///
/// Keys are compared by their hashes: if n denials stand, the probability that one of k other keys
/// is mistaken for one of theirs is about n * k / 2^128.
///
/// Holds at most kEntries denials, in 1.6 MiB; if a set of kWays is full, the denial that ends
/// first is replaced. All calls must use the same clock, which is never set back. Thread-safe;
/// takes no lock if nothing is remembered about the key.
class DenyCache {
 public:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kSets = 4096;
  static constexpr std::size_t kEntries = kWays * kSets;

  /// For how long a denial is used while the store answers; 0 for not at all.
  explicit DenyCache(std::chrono::nanoseconds hold);
  ~DenyCache();
  DenyCache(const DenyCache&) = delete;
  DenyCache& operator=(const DenyCache&) = delete;

  /// Identifies a key: the number of its space, and its hash.
  struct Name {
    std::uint64_t space = 0;
    KeyHash key;
  };

  /// A fast check: if it returns false, nothing is remembered about the key, and denies() is false.
  bool knows(const Name& name) const;

  /// Whether the store answers.
  enum class Answers : std::uint8_t { kYes, kNo };

  /// Whether the request is denied now; if so, sets `decision` (Source::kCache). REQUIRES: `name`
  /// is that of the request's key; the request is a kTake or a kTakeUpTo.
  bool denies(const Name& name, const Request& request, Instant now, Decision& decision,
              Answers store = Answers::kYes) const;

  /// Remembers that the store has denied this kTake. `sent` is a lower bound of when it was sent. A
  /// denial without an end is ignored.
  void remember(const Name& name, const Request& request, Instant sent, const Decision& denial);

  /// The store has allowed this take, sent at `sent` or later: forgets the denial of an earlier one
  /// if that would deny it.
  void refute(const Name& name, const Request& request, Instant sent);

  /// Whether a take like this one was denied when the store was asked last, as far as it is
  /// remembered: the denial may have ended since.
  bool denied_last(const Name& name, const Request& request) const;

  /// Forgets the key's denial. From now on denials of requests sent up to `now` are not remembered.
  void clear(const Name& name, Instant now);

 private:
  struct Entry;
  struct Set;
  struct Place;
  /// The upper half of a key's hash; 0 if the entry is free. Kept apart from the sets, so that
  /// knows() reads from 128 KiB of memory and not from all of it.
  using Tag = std::atomic<std::uint64_t>;

  Entry* find(const Place& place) const;

  const std::int64_t hold_ns_;
  const std::unique_ptr<Tag[]> tags_;  // Written under the lock of their set.
  const std::unique_ptr<Set[]> sets_;
};

}  // namespace sluice
