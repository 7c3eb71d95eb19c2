#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "net/endpoint.h"

namespace sluice::memcached {

/// What a store on Memcached is opened with.
struct MemcachedOptions {
  /// At least one, no two alike. Each has its share of the keys.
  std::vector<Endpoint> servers;
  /// As is_prefix() says.
  std::string prefix = "sluice";
  /// A decision that has not come by then is kUnavailable.
  std::chrono::nanoseconds deadline = std::chrono::milliseconds(10);
  /// To each server.
  std::size_t connections = 1;
  /// What this process wrote last is remembered in so many bytes, all that belongs to it counted;
  /// beyond that some keys are forgotten, and read again.
  std::size_t max_kept_bytes = std::size_t{64} << 20;
  /// Instants are given, as in replay: values are kept for a day at least, and removed at the end.
  bool virtual_time = false;
};

}  // namespace sluice::memcached
