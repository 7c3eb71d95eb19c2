#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "servers/resp_client.h"
#include "servers/server.h"

namespace sluice::servers {

struct RedisOptions {
  /// Lines added to its configuration file.
  std::vector<std::string> config = {};
  /// The password of the user "default", and of a server that it follows; empty: none is asked for.
  std::string password = {};
  /// Its port speaks TLS only, with the certificates of certificates(), and so it does itself to
  /// other servers.
  bool tls = false;
  /// With `tls`: only clients that show a certificate of the authority.
  bool client_certificates = false;
  /// It is a sentinel.
  bool sentinel = false;
  /// 0: any free one.
  std::uint16_t port = 0;
};

/// A redis-server with nothing on disk, on a port of 127.0.0.1 and on a Unix socket.
class RedisServer final : public Server {
 public:
  /// Returns once it answers.
  explicit RedisServer(RedisOptions options = {});

  /// "redis://127.0.0.1:PORT/0", with "rediss" for TLS and "default:PASSWORD@" where there is one.
  std::string url() const;
  /// "unix://PATH"; it needs no TLS, but the password.
  std::string unix_url() const;
  std::filesystem::path unix_path() const;

  /// A client over the Unix socket, with the password given.
  RespClient client() const;
  /// One command through a connection of its own; its reply as Reply::printed() has it.
  std::string command(const std::vector<std::string>& words) const;
  /// The value of one line of INFO; empty where there is none.
  std::string info(const std::string& field) const;

 private:
  bool answers() override;
  void write_config() const;

  RedisOptions options_;
};

}  // namespace sluice::servers
