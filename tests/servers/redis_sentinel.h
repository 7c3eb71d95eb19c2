#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "servers/redis_server.h"

namespace sluice::servers {

struct SentinelOptions {
  /// The password of the primary and the replica, as in RedisOptions; sentinels have none.
  std::string password = {};
  /// TLS for all of them.
  bool tls = false;
  /// The first sentinel considers the primary lost when it has been silent for so long, the next
  /// after twice, the last after three times as long. For a test that loses the primary, 500 ms;
  /// others should have no failover because a busy machine holds the primary for a while.
  std::chrono::milliseconds lost_after{10'000};
};

/// A primary, a replica and three sentinels that watch them under the name "mymaster". Each of them
/// promotes the replica of a lost primary if one more sentinel runs. Not thread-safe.
class RedisSentinel {
 public:
  static constexpr std::size_t kSentinels = 3;
  static constexpr const char* kMasterName = "mymaster";

  /// Returns once the replica follows the primary, and the sentinels are connected to it and to
  /// each other.
  explicit RedisSentinel(SentinelOptions options = {});

  /// "redis+sentinel://127.0.0.1:PORT,127.0.0.1:PORT,127.0.0.1:PORT/mymaster", with
  /// "default:PASSWORD@" if there is a password, and "?tls=yes" for TLS.
  std::string url() const;

  /// The initial primary and replica; a failover exchanges their roles.
  RedisServer& first_primary() { return *servers_[0]; }
  RedisServer& first_replica() { return *servers_[1]; }
  RedisServer& sentinel(std::size_t i) { return *sentinels_.at(i); }

  /// The port of the primary, according to the first running sentinel.
  std::uint16_t named_primary() const;

  /// Orders a failover while the primary is still running, once the replica can be promoted.
  void begin_failover();
  /// Returns once named_primary() is that port, and the server there is a primary.
  void await_primary(std::uint16_t port) const;

 private:
  RedisServer& running_sentinel() const;
  void start_servers();
  void start_sentinels();

  const SentinelOptions options_;
  std::array<std::unique_ptr<RedisServer>, 2> servers_;
  std::array<std::unique_ptr<RedisServer>, kSentinels> sentinels_;
};

}  // namespace sluice::servers
