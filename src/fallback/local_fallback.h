#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/store.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// The retry_after of a denial by OnFailure::kDeny.
inline constexpr std::chrono::seconds kPolicyWait{1};

/// The local states: a memory store with which this process answers while its remote store does
/// not. What the remote store decides through this process is mirrored into them. They admit
/// 1/shares of each limit, rounded down: one unit of the remote store counts as `shares` units
/// here. What would exceed the local limit is not mirrored, except charges. Each permit counts as
/// one here too, and is granted while fewer permits are held than the share allows.
///
/// All requests must have spaces of store(). Thread-safe.
class LocalFallback {
 public:
  /// `shares` is at least 1. Throws StoreError where max_bytes is out of the range of
  /// MemoryOptions::max_bytes.
  LocalFallback(std::size_t max_bytes, std::int64_t shares);

  MemoryStore& store() { return store_; }

  /// Prefetches the state of a key, so that mirror() does not have to wait for memory. The hash
  /// must be made with the secret of store().
  void prefetch(const Space& space, const KeyHash& key) const {
    store_.prefetch(space, key);
  }

  /// Turns a request and the remote store's answer to it into the request that mirror() has to
  /// carry out on the local states. Returns false if nothing has to be done.
  bool make_change(Request& request, const Decision& answer) const;

  /// Carries out the requests that make_change() has made, at the instant `sent`.
  void mirror(std::span<const Request> changes, Instant sent);

  /// Decides a request that the remote store did not answer: Source::kLocal.
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
