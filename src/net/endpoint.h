#pragma once

#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice {

/// The longest path of a Unix socket.
inline constexpr std::size_t kMaxUnixPathBytes = sizeof(sockaddr_un::sun_path) - 1;

/// How to speak TLS (1.2 or later) to a server.
struct TlsOptions {
  /// PEM files. Without a CA file, the system's certificates are trusted. Without a certificate
  /// file, the client presents none. Without a key file, the key is in the certificate file.
  std::string ca_file = {};
  std::string certificate_file = {};
  std::string key_file = {};
  /// The name, or the numeric address, the server's certificate must be for; empty: the host's.
  std::string server_name = {};
  /// Accept any certificate.
  bool insecure = false;
};

class TlsContext;

/// A server to connect to: a host's name or numeric address and a port, or a Unix socket's path.
struct Endpoint {
  /// Without brackets.
  std::string host = {};
  std::uint16_t port = 0;
  /// If it is not empty, host and port are not used.
  std::string unix_path = {};
  /// Null: without TLS. Endpoints that are copied from one share it.
  std::shared_ptr<TlsContext> tls = {};

  friend bool operator==(const Endpoint&, const Endpoint&) = default;

  /// "host:port", "[::1]:port" or "unix:PATH".
  std::string text() const {
    if (!unix_path.empty()) return "unix:" + unix_path;
    const bool is_ipv6 = host.find(':') != std::string::npos;
    const std::string name = is_ipv6 ? "[" + host + "]" : host;
    return name + ":" + std::to_string(port);
  }
};

}  // namespace sluice
