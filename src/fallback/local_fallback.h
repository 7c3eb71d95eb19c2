#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/store.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// After how long a caller that is denied in the place of the store may try again.
inline constexpr std::chrono::seconds kPolicyWait{1};

/// The states with which a process answers for a store that does not. What the store does through
/// this process is mirrored into them, and they allow one share of each limit, rounded down: a unit
/// of the store is as many of theirs as there are shares. What is past their own limit is not
/// mirrored, unless it was charged. Permits are mirrored one by one, whatever the share, and given
/// while fewer are held than the share allows.
///
/// All requests have spaces of store(). Thread-safe.
class LocalFallback {
 public:
  /// They allow one of so many shares, at least 1. Throws StoreError where max_bytes is out of the
  /// range of MemoryOptions::max_bytes.
  LocalFallback(std::size_t max_bytes, std::int64_t shares);

  MemoryStore& store() { return store_; }

  /// Asks the processor for the state of a key, so that to mirror it soon need not wait for memory.
  /// The hash is made with the store's secret.
  void prefetch(const Space& space, const KeyHash& key) const {
    const memory::Place place = store_.place_of(space, key);
    place.shard->prefetch(place.tag);
  }

  /// Makes of a request, to which the store has given this answer, what is to be done here. False
  /// where that is nothing.
  bool make_change(Request& request, const Decision& answer) const;

  /// Does what make_change() made of some requests, which were sent at this instant.
  void mirror(std::span<const Request> changes, Instant sent);

  /// Does what the store did not, and answers in its place: Source::kLocal.
  Decision answer(const Request& request, Instant now);

  /// The same for requests that are asked together, at most kMaxTogether. Throws
  /// std::invalid_argument as Store::decide_all().
  Decision answer_all(std::span<const Request> requests, Instant now);

 private:
  Decision answer_for_permit(Request request, Instant now);
  std::int64_t scaled_cost(const Request& request) const;
  Decision unscaled(Decision decision, std::int64_t cost) const;
  void round_down(const Request& request, Instant now, Decision& decision);

  const std::int64_t shares_;
  MemoryStore store_;
};

}  // namespace sluice
