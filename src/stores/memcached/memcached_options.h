#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "net/endpoint.h"

namespace sluice::memcached {

/// The options of a store on Memcached.
struct MemcachedOptions {
  /// At least one, no two alike. Each has its share of the keys.
  std::vector<Endpoint> servers;
  /// See is_prefix().
  std::string prefix = "sluice";
  /// A decision that was not made within this time is kUnavailable.
  std::chrono::nanoseconds deadline = std::chrono::milliseconds(10);
  /// The number of connections to each server.
  std::size_t connections = 1;
  /// The most bytes for the values that this process wrote last, with all overhead. Beyond that it
  /// forgets some, and reads these keys again.
  std::size_t max_kept_bytes = std::size_t{64} << 20;
  /// Instants are given, as in replay: values are kept for a day at least.
  bool virtual_time = false;
};

}  // namespace sluice::memcached
