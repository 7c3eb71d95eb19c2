#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "servers/resp_client.h"
#include "servers/server.h"

namespace sluice::servers {

struct RedisOptions {
  /// Further lines of its configuration file.
  std::vector<std::string> config = {};
  /// The password of the user "default", and of a server that it follows; empty for none.
  std::string password = {};
  /// The port requires TLS, with the certificates of certificates(); the server also uses TLS to
  /// other servers.
  bool tls = false;
  /// Run as a sentinel.
  bool sentinel = false;
  /// 0 for any free port.
  std::uint16_t port = 0;
};

/// A redis-server that writes nothing to disk, on a port of 127.0.0.1 and on a Unix socket.
class RedisServer final : public Server {
 public:
  /// Returns once it answers.
  explicit RedisServer(RedisOptions options = {});

  /// "redis://127.0.0.1:PORT/0"; "rediss" for TLS, and "default:PASSWORD@" if there is a password.
  std::string url() const override;
  long connections_ever() const override { return std::stol(info("total_connections_received")); }
  std::filesystem::path unix_path() const;

  /// A client over the Unix socket that has sent the password.
  RespClient client() const;
  /// Sends one command on a new connection. Returns Reply::printed() of the reply.
  std::string command(const std::vector<std::string>& words) const;
  /// The value of one line of INFO; empty if there is none.
  std::string info(const std::string& field) const;

 private:
  bool answers() override;
  void write_config() const;

  RedisOptions options_;
};

}  // namespace sluice::servers
