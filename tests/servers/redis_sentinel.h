#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "servers/redis_server.h"

namespace sluice::servers {

struct SentinelOptions {
  /// Of the primary and the replica, as in RedisOptions; sentinels ask for none.
  std::string password = {};
  /// Of all of them.
  bool tls = false;
};

/// A primary, a replica and three sentinels that watch them under the name "mymaster". The first
/// sentinel takes a primary for lost that is silent for 500 ms, the next after 1 s, the last after
/// 1.5 s; each of them has the replica promoted if one more sentinel runs. One thread at a time.
class RedisSentinel {
 public:
  static constexpr std::size_t kSentinels = 3;
  static constexpr const char* kMasterName = "mymaster";

  /// Returns once the replica follows the primary and the sentinels hear from it and each other.
  explicit RedisSentinel(SentinelOptions options = {});

  /// "redis+sentinel://127.0.0.1:PORT,127.0.0.1:PORT,127.0.0.1:PORT/mymaster", with
  /// "default:PASSWORD@" where there is one, and "?tls=yes" for TLS.
  std::string url() const;

  /// Which of the two is which changes with a failover; these are those of the beginning.
  RedisServer& first_primary() { return *servers_[0]; }
  RedisServer& first_replica() { return *servers_[1]; }
  RedisServer& sentinel(std::size_t i) { return *sentinels_.at(i); }

  /// The port of the primary, as the first sentinel that runs names it.
  std::uint16_t named_primary() const;

  /// Orders a failover as if the primary had been lost, which goes on running.
  void begin_failover();
  /// Returns once the sentinels name that port and the server there is a primary.
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
