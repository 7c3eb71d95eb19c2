#pragma once

namespace sluice {

/// How to open a store, besides its URL.
struct StoreOptions {
  /// Each decision gets its instant from the caller, as in replay. The store reads no clock, uses
  /// the same hashing in every run, and forgets or evicts no key for lack of room; it throws
  /// StoreError instead. Its keys are useless afterwards: a store on Redis removes them when it is
  /// destroyed; those that it cannot remove, and those on Memcached, expire after a day, or later
  /// if their states last longer.
  bool virtual_time = false;
};

}  // namespace sluice
