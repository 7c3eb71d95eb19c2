#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "net/stream_server.h"
#include "net/tls_server.h"
#include "server/log.h"
#include "server/service_manager.h"
#include "server/snapshot_keeper.h"
#include "service/access.h"
#include "service/served_limits.h"
#include "service/server_context.h"

namespace sluice {

/// An address to serve on.
struct ServedAddress {
  /// Implicit, so that a list of addresses can be written as a list of texts.
  ServedAddress(std::string address) : text(std::move(address)) {}
  ServedAddress(const char* address) : text(address) {}
  ServedAddress(std::string address, std::optional<TlsServerFiles> files)
      : text(std::move(address)), tls(std::move(files)) {}

  /// "ADDRESS:PORT" or "unix:PATH"; port 0 is any free one.
  std::string text;
  /// The files for TLS; no TLS if they have no certificate. If this is nothing, a TCP address uses
  /// ServerOptions::tls, and a Unix socket has no TLS.
  std::optional<TlsServerFiles> tls;

  friend bool operator==(const ServedAddress&, const ServedAddress&) = default;
};

/// The addresses of each protocol, by its name.
using ServedAddresses = std::map<std::string, std::vector<ServedAddress>>;

/// The default addresses of all protocols.
ServedAddresses default_addresses();

struct ServerOptions {
  ServedAddresses addresses = default_addresses();
  /// Listening sockets for some of these addresses, used instead of new ones. They stay open.
  std::vector<PassedSocket> passed_sockets = {};
  /// For the TCP addresses without files of their own; no TLS if there is no certificate.
  TlsServerFiles tls = {};
  /// 1 to kMaxThreads; 0: one for each core this process may use, up to that.
  std::size_t threads = 0;
  std::string store = "memory:";
  ServedLimits limits = {};
  std::vector<User> users = {};
  /// Whether the file has `users` without any, of which Server warns.
  bool has_empty_users = false;
  ClientRules client_rules = {};
  /// Allows addresses that other machines can reach without users or certificates of the clients.
  bool insecure = false;
  /// At least 1. The server refuses further connections.
  std::size_t max_connections = 10'000;
  /// The most that all connections hold together: see StreamServer::set_max_bytes().
  std::size_t max_client_bytes = kMaxClientBytes;
  /// How long the server sends pending replies when it stops.
  std::chrono::milliseconds drain{5'000};
  /// For a memory store.
  SnapshotOptions snapshot = {};
  LogOptions log = {};
};

/// Each thread remembers limits of its own and holds their spaces in the store (limit_registry.h):
/// all threads together at most half of the spaces that a store can have.
inline constexpr std::size_t kMaxThreads = 64;

/// The files for TLS.
std::set<std::string> certificate_files(const ServerOptions& options);

}  // namespace sluice
