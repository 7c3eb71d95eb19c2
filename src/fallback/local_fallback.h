#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/store.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// The local states: a memory store with which this process answers while its remote store does
/// not. They know what the remote store last said to this process: a key of which it said that r
/// units remain has no more than r here, whichever process used the others. So answers may be
/// mirrored in any order.
///
/// They admit 1/shares of each limit, rounded down: each unit that this process is given, here or
/// by the remote store, counts as `shares` units. What would exceed the local limit does not count,
/// except charges. Each permit counts as one, and is granted while fewer permits are held than the
/// share allows.
///
/// All spaces are those of store(). Thread-safe.
class LocalFallback {
 public:
  /// `shares` is at least 1. Throws StoreError where max_bytes is out of the range of
  /// MemoryOptions::max_bytes.
  LocalFallback(std::size_t max_bytes, std::int64_t shares);

  MemoryStore& store() { return store_; }

  /// Asks the processor for the key's state, so that mirror() need not wait for memory. The hash is
  /// made with the secret of store().
  void prefetch(const KeyHash& key, const Space& space) const {
    const memory::Place place = store_.place_of(space, key);
    place.shard->prefetch(place.tag);
  }

  /// The store has given this answer to a request that was sent at this instant. Of requests that
  /// were asked together, the answer is the request's own, but that `allowed` says whether all were
  /// admitted.
  void mirror(const KeyHash& key, const Request& request, const Decision& told, Instant sent);

  /// The most of a key's units that may still count in the store, of those that were admitted here:
  /// for an `&`, whose parts are charged together, no more than a bucket among them can hold.
  std::int64_t units_that_count(const Request& request, Instant now);

  /// The time until no part of the key's limit counts what was admitted here.
  std::chrono::nanoseconds reset_after(Request request, Instant now);

  /// Decides what the remote store did not answer: one request, or several that are asked together,
  /// at most kMaxTogether. Source::kLocal. Throws std::invalid_argument as Store::decide_all().
  Decision answer(std::span<const Request> requests, Instant now);

 private:
  Decision answer_one(const Request& request, Instant now);
  Decision answer_together(std::span<const Request> requests, Instant now);
  Decision answer_for_permit(Request request, Instant now);
  bool is_repeated(const Request& request, const Decision& told) const;
  void repeat(const memory::Place& place, Request request, const Decision& told, Instant sent);
  std::int64_t scaled_cost(const Request& request) const;
  Decision unscaled(Decision decision, std::int64_t cost) const;
  void round_down(const Request& request, Instant now, Decision& decision);

  const std::int64_t shares_;
  MemoryStore store_;
};

}  // namespace sluice
