#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/store.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// The retry_after of a denial by OnFailure::kDeny.
inline constexpr std::chrono::seconds kPolicyWait{1};

/// The local states: a memory store with which this process answers while its remote store does
/// not. They know what the remote store last said to this process: what it decides through this
/// process is mirrored into them, and of a key of which it said that r units remain, they admit at
/// most r more. They admit 1/shares of each limit, rounded down: one unit of the remote store
/// counts as `shares` units here. What would exceed the local limit is not mirrored, except
/// charges. Each permit counts as one here too, and is granted while fewer permits are held than
/// the share allows.
///
/// A request is announced by expect(), and then ends with mirror() or forget(). Except in expect(),
/// all requests must have spaces of store(). Thread-safe.
class LocalFallback {
 public:
  /// `shares` is at least 1. Throws StoreError where max_bytes is out of the range of
  /// MemoryOptions::max_bytes.
  LocalFallback(std::size_t max_bytes, std::int64_t shares);

  MemoryStore& store() { return store_; }

  /// The request is about to be sent to the store. Asks the processor for the key's state, so that
  /// to mirror the answer soon need not wait for memory. The hash is made with the store's secret.
  void expect(const KeyHash& key, const Space& space, const Request& request);

  /// The store has given this answer to a request that was sent at this instant: does the same
  /// here, and charges what other processes have used.
  void mirror(const KeyHash& key, Request request, const Decision& told, Instant sent);

  /// The store has not answered the request.
  void forget(const KeyHash& key, const Request& request);

  /// As mirror(), for one of several requests that were asked together and have one answer, which
  /// does not say how many units of each key remain. They are not announced.
  void mirror_one_of_group(Request request, const Decision& told, Instant sent);

  /// The most of a key's units that may still count in the store, of those that were admitted here:
  /// for an `&`, whose parts are charged together, no more than a bucket among them can hold.
  std::int64_t units_that_count(const Request& request, Instant now);

  /// The time until no part of the key's limit counts what was admitted here.
  std::chrono::nanoseconds reset_after(Request request, Instant now);

  /// Decides a request that the remote store did not answer: Source::kLocal.
  Decision answer(const Request& request, Instant now);

  /// The same for requests that are asked together, at most kMaxTogether. Throws
  /// std::invalid_argument as Store::decide_all().
  Decision answer_all(std::span<const Request> requests, Instant now);

 private:
  // The units of a few keys that the store may have charged, by requests whose answers are not
  // mirrored yet.
  using Unsettled = std::atomic<std::int64_t>;

  Decision answer_for_permit(Request request, Instant now);
  std::int64_t scaled_cost(const Request& request) const;
  Decision unscaled(Decision decision, std::int64_t cost) const;
  void round_down(const Request& request, Instant now, Decision& decision);
  bool make_change(Request& request, const Decision& told) const;
  Unsettled& unsettled(const Space& space, const KeyHash& key) const;

  const std::int64_t shares_;
  const std::unique_ptr<Unsettled[]> unsettled_;
  MemoryStore store_;
};

}  // namespace sluice
