#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/lock.h"
#include "core/store.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// The local states: a memory store with which this process answers while its remote store does
/// not. They know what the remote store last said to this process: what it decides through this
/// process is mirrored into them, and of a key of which it said that r units remain, they admit at
/// most r more. They admit 1/shares of each limit, rounded down: one unit of the remote store
/// counts as `shares` units here. What would exceed the local limit is not mirrored, except
/// charges. Each permit counts as one here too, and is granted while fewer permits are held than
/// the share allows.
///
/// Each request to the remote store is announced by expect(), and then ends with mirror() or
/// forget(). All spaces are those of store(). Thread-safe.
class LocalFallback {
 public:
  /// `shares` is at least 1. Throws StoreError where max_bytes is out of the range of
  /// MemoryOptions::max_bytes.
  LocalFallback(std::size_t max_bytes, std::int64_t shares);

  MemoryStore& store() { return store_; }

  /// The request is about to be sent to the store; its own space is not used. Asks the processor
  /// for the key's state, so that to mirror the answer soon need not wait for memory. The hash is
  /// made with the secret of store(). Returns how many of the units that remain the store may take
  /// away.
  std::int64_t expect(const KeyHash& key, const Space& space, const Request& request);

  /// The store has given this answer to a request that was sent at this instant: does the same
  /// here, and charges what other processes have used. Of requests that were asked together, the
  /// answer is the request's own, but that `allowed` says whether all were admitted. `expected` is
  /// the result of expect().
  void mirror(const KeyHash& key, const Request& request, std::int64_t expected,
              const Decision& told, Instant sent);

  /// The store has not answered the request.
  void forget(const KeyHash& key, const Space& space, std::int64_t expected);

  /// The most of a key's units that may still count in the store, of those that were admitted here:
  /// for an `&`, whose parts are charged together, no more than a bucket among them can hold.
  std::int64_t units_that_count(const Request& request, Instant now);

  /// The time until no part of the key's limit counts what was admitted here.
  std::chrono::nanoseconds reset_after(Request request, Instant now);

  /// Decides what the remote store did not answer: one request, or several that are asked together,
  /// at most kMaxTogether. Source::kLocal. Throws std::invalid_argument as Store::decide_all().
  Decision answer(std::span<const Request> requests, Instant now);

 private:
  // What is known of a few keys beside their states.
  struct Stripe {
    Lock lock;  // Held while an answer is mirrored.
    // The units that the store may have charged for requests whose answers are not mirrored yet.
    std::int64_t unsettled = 0;
  };

  Decision answer_one(const Request& request, Instant now);
  Decision answer_together(std::span<const Request> requests, Instant now);
  Decision answer_for_permit(Request request, Instant now);
  std::int64_t scaled_cost(const Request& request) const;
  Decision unscaled(Decision decision, std::int64_t cost) const;
  void round_down(const Request& request, Instant now, Decision& decision);
  bool make_change(Request& request, const Decision& told) const;
  Stripe& stripe_of(const KeyHash& key, const Space& space) const;

  const std::int64_t shares_;
  const std::unique_ptr<Stripe[]> stripes_;
  MemoryStore store_;
};

}  // namespace sluice
