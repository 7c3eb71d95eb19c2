#pragma once

#include <functional>
#include <string_view>

namespace sluice {

/// How to open a store, besides its URL.
struct StoreOptions {
  /// Each decision gets its instant from the caller, as in replay. The store reads no clock, uses
  /// the same hashing in every run, and forgets or evicts no key for lack of room; it throws
  /// StoreError instead.
  bool virtual_time = false;
  /// Keys of virtual time are useless afterwards, so the store removes them when it is destroyed.
  /// If a store on Redis cannot, it calls this with one sentence that says what may be left, on the
  /// thread that destroys the store. (Memcached cannot tell, since it does not list its keys.)
  std::function<void(std::string_view)> left_behind = {};
};

}  // namespace sluice
