#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/store.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// The states with which a process answers for a store that does not: they have followed what the
/// store did through this process, and allow one share of each limit, rounded down. A unit of the
/// store is as many of theirs as there are shares; what is past their own limit is not noted, and
/// that which is charged is. Permits are noted one by one, whatever the share, and given while
/// fewer are held than the share allows.
///
/// All requests have spaces of store(). Thread-safe.
class LocalStates {
 public:
  struct Options {
    /// As MemoryOptions::max_bytes.
    std::size_t max_bytes = 0;
    /// They allow one of so many shares. At least 1.
    std::int64_t shares = 1;
  };

  /// Throws StoreError where max_bytes is out of range.
  explicit LocalStates(const Options& options)
      : shares_(options.shares), store_({.max_bytes = options.max_bytes, .table = {}}) {}

  MemoryStore& store() { return store_; }

  /// What its keys are hashed under.
  const HashSecret& secret() const { return store_.secret(); }

  /// Makes `local` what store() is to be asked, so as to follow what the store answered to the
  /// request. False where that changed nothing.
  bool follow(const Request& request, const Decision& answer, Request& local) const;

  /// Does what the store did not, and answers in its place: Source::kLocal.
  Decision answer(const Request& request, Instant now);

  /// The same for requests that are asked together, at most kMaxTogether. Throws
  /// std::invalid_argument as Store::decide_all().
  Decision answer_all(std::span<const Request> requests, Instant now);

 private:
  Decision answer_for_permit(Request request, Instant now);
  Request scaled(const Request& request) const;
  std::int64_t scaled_cost(const Request& request) const;
  Decision unscaled(Decision decision, std::int64_t cost) const;
  void round_down(const Request& request, Instant now, Decision& decision);

  const std::int64_t shares_;
  MemoryStore store_;
};

}  // namespace sluice
