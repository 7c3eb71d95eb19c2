#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "servers/server.h"

namespace sluice::servers {

struct MemcachedOptions {
  /// Further arguments, for example {"-m", "8"}.
  std::vector<std::string> arguments = {};
  /// The port requires TLS, with the certificates of certificates().
  bool tls = false;
  /// With `tls`: clients must have a certificate of the authority.
  bool client_certificates = false;
};

/// A memcached on a port of 127.0.0.1.
class MemcachedServer final : public Server {
 public:
  /// Returns once it answers.
  explicit MemcachedServer(MemcachedOptions options = {});

  /// "memcached://127.0.0.1:PORT", with "?tls=yes" for TLS.
  std::string url() const override;
  long connections_ever() const override { return std::stol(stat("total_connections")); }

  /// Sends commands, each with its line end, on a new connection. Returns all replies, with line
  /// ends.
  std::string command(std::string_view lines) const;
  /// The value of one line of `stats`; empty if there is none.
  std::string stat(const std::string& field) const;

 private:
  bool answers() override;

  const bool tls_;
  const std::uint16_t plain_port_;  // For command(): like port(), but without TLS.
};

}  // namespace sluice::servers
