#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

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
/// What ends a denial earlier, a refund or a reset, is told by clear(). A denial that was on its
/// way meanwhile is not remembered: it may be older.
///
/// Keys are told apart by a 128-bit XXH3 under a random secret: two of k keys that are asked about
/// while n denials stand are confused with a probability of about n * k / 2^128.
///
/// Bounded: kEntries denials, 1.3 MiB; where a place is full, the one that ends first gives way.
/// Instants are those of a clock that is never set back, the same for all calls. Thread-safe, and
/// without a lock where nothing is remembered of a key; where nothing is remembered of the keys
/// that share its places, either, all that is read is a mark of four bytes.
class DenyCache {
 public:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kSets = 4096;
  static constexpr std::size_t kEntries = kWays * kSets;

  /// Throws StoreError where the system has no random bytes.
  DenyCache();
  ~DenyCache();
  DenyCache(const DenyCache&) = delete;
  DenyCache& operator=(const DenyCache&) = delete;

  /// A key within a space, as its number tells it from others.
  struct Name {
    std::uint64_t space = 0;
    std::string_view key;
  };

  /// A key, and what was cleared before it was asked about.
  struct Ticket {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::uint32_t generation = 0;
  };

  /// REQUIRES: taken before the store is asked.
  Ticket take_ticket(const Name& name) const;

  /// Whether denies() may say so: at little cost, and without the time.
  bool may_deny(const Ticket& ticket) const {
    return mark_of(ticket).load(std::memory_order_acquire) % 2 != 0;
  }

  /// Whether the request is denied now; if so, by this decision. REQUIRES: the ticket is its key's;
  /// it takes.
  bool denies(const Ticket& ticket, const Request& request, Instant now, Decision& decision);

  /// The store has denied this request, which was sent at this instant. Nothing is remembered of a
  /// denial without an end.
  void remember(const Ticket& ticket, const Request& request, Instant sent, const Decision& denial);

  /// No denial of the key stands any more, and none that is on its way will.
  void clear(const Ticket& ticket);

 private:
  struct Entry;
  struct Set;
  /// Twice the number of times that something in a set was cleared; and one, if a denial may stand
  /// there.
  using SetMark = std::atomic<std::uint32_t>;

  Set& set_of(const Ticket& ticket) const;
  SetMark& mark_of(const Ticket& ticket) const;
  void forget_ended(const Ticket& ticket, Instant now);
  std::uint64_t numbers_of(const Request& request) const;

  static constexpr std::size_t kSecretBytes = 192;
  std::array<unsigned char, kSecretBytes> secret_;
  std::unique_ptr<SetMark[]> marks_;
  std::unique_ptr<Set[]> sets_;
};

}  // namespace sluice
