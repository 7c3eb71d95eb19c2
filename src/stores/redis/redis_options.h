#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "net/endpoint.h"

namespace sluice::redis {

enum class Topology : std::uint8_t {
  kSingle,    ///< One server.
  kSentinel,  ///< One primary, which the sentinels name.
  kCluster,   ///< Primaries that share the slots.
};

/// The options of a store on Redis.
struct RedisOptions {
  Topology topology = Topology::kSingle;
  /// The server; the sentinels; some of the cluster's nodes.
  std::vector<Endpoint> servers;
  /// The name of the primary at the sentinels.
  std::string primary_name = {};
  /// Empty: no AUTH. A password without a user is the default user's.
  std::string user = {};
  std::string password = {};
  /// The same for the sentinels.
  std::string sentinel_user = {};
  std::string sentinel_password = {};
  int database = 0;
  std::string prefix = "sluice";
  /// A decision that was not made within this time is kUnavailable.
  std::chrono::nanoseconds deadline = std::chrono::milliseconds(10);
  /// Decide by this process's clock instead of the server's TIME; keys then live longer by the
  /// most that clocks are expected to differ.
  bool client_time = false;
  std::chrono::milliseconds skew{5'000};
  /// The number of connections to each server.
  std::size_t connections = 1;
  /// Instants are given, as in replay: keys are kept for a day, and removed at the end.
  bool virtual_time = false;
};

}  // namespace sluice::redis
