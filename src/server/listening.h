#pragma once

#include <map>
#include <memory>
#include <vector>

#include "net/address.h"
#include "net/tls_server.h"
#include "server/protocols.h"
#include "server/server_options.h"
#include "server/service_manager.h"

namespace sluice {

/// An address at which a protocol is served.
struct Listening {
  const ServedProtocol* protocol = nullptr;
  Address address;
  /// No TLS if there is no certificate.
  TlsServerFiles tls;
  /// See Service::passed_socket.
  int passed_socket = -1;
};

/// Where the options say that protocols are served, with the sockets that were passed. Throws
/// ConfigError at the first mistake, also where a socket is for none of these addresses.
std::vector<Listening> read_addresses(const ServerOptions& options,
                                      const std::vector<PassedSocket>& passed = {});

/// Throws ConfigError, in the words of Server, where a Unix socket cannot be made. (Server needs no
/// call: it listens.)
void check_places(const std::vector<Listening>& listening);

/// Throws ConfigError where a file for TLS is a pipe or a device. At the start a server waits for
/// what they have, but not when it reads its files again.
void refuse_pipes(const std::vector<Listening>& listening);

/// By their files. Addresses with the same files share a TlsServer.
using TlsServers = std::map<TlsServerFiles, std::shared_ptr<const TlsServer>>;

/// The TlsServers of these addresses. Reads each file once: it may be a pipe. Throws ConfigError if
/// some cannot be used.
TlsServers make_tls_servers(const std::vector<Listening>& listening);

}  // namespace sluice
