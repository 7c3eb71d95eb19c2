#pragma once

#include <functional>

#include "core/instant.h"

namespace sluice {

/// How to open a store, besides its URL.
struct StoreOptions {
  /// Each decision gets its instant from the caller, as in replay. The store reads no clock, uses
  /// the same hashing in every run, and forgets or evicts no key for lack of room; it throws
  /// StoreError instead. Its keys are useless afterwards: a store on Redis removes them when it is
  /// destroyed, and those that it cannot remove expire within a day; those on Memcached expire
  /// after a day, or later if their states last longer.
  bool virtual_time = false;
  /// For a memory store: the clock of the instants that the caller passes with each decision, if
  /// that is not the system's. The store goes by it when it forgets keys to make room for limits.
  std::function<Instant()> caller_clock = {};
};

}  // namespace sluice
