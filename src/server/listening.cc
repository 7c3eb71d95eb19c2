#include "server/listening.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "net/special_file.h"
#include "net/stream_server.h"
#include "server/config_error.h"

namespace sluice {
namespace {

Listening read_address(const ServedProtocol& protocol, const ServedAddress& served,
                       const ServerOptions& options) {
  ParsedAddress parsed = parse_address(served.text);
  if (!parsed.address) throw ConfigError(parsed.error);
  Listening listening{.protocol = &protocol, .address = *std::move(parsed.address), .tls = {}};
  if (served.tls) {
    listening.tls = *served.tls;
  } else if (listening.address.family != Address::Family::kUnix) {
    listening.tls = options.tls;
  }
  const bool is_closed = !options.users.empty() || !listening.tls.client_ca.empty();
  if (!options.insecure && !listening.address.is_local() && !is_closed) {
    throw ConfigError("refusing to serve on " + served.text +
                      ", which other machines may reach, without users (in the file) or "
                      "certificates of the clients (--tls-client-ca); --insecure allows it");
  }
  return listening;
}

const ServedProtocol& find_protocol(const std::string& name) {
  for (const ServedProtocol& protocol : protocols()) {
    if (protocol.name == name) return protocol;
  }
  throw ConfigError("there is no protocol '" + name + "'");
}

/// Throws ConfigError if nothing is served at the address of one of them.
void use_passed_sockets(const std::vector<PassedSocket>& sockets, std::vector<Listening>& all) {
  for (const auto& [address, descriptor] : sockets) {
    const auto at = std::ranges::find_if(all, [&address = address](const Listening& each) {
      return each.address == address && each.passed_socket < 0;
    });
    if (at == all.end()) {
      throw ConfigError("the service manager has passed a socket for " + address.text() +
                        ", where nothing is to be served");
    }
    at->passed_socket = descriptor;
  }
}

/// Whether the system does not let a server listen on both: they are the same, or one is the port
/// at all addresses of the machine.
bool overlap(const Address& a, const Address& b) {
  if (a.port == 0) return a == b && a.family == Address::Family::kUnix;
  const auto is_all = [](const std::string& host) { return host == "0.0.0.0" || host == "::"; };
  return a.family == b.family && a.port == b.port &&
         (a.host == b.host || is_all(a.host) || is_all(b.host));
}

/// Throws ConfigError if an address overlaps with another one, unless a service manager has passed
/// sockets for both.
void require_apart(const std::vector<Listening>& all) {
  for (const Listening& each : all) {
    if (each.passed_socket >= 0) continue;
    const auto other = std::ranges::find_if(all, [&](const Listening& one) {
      return &one != &each && overlap(one.address, each.address);
    });
    if (other == all.end()) continue;
    const std::string text = each.address.text();
    throw ConfigError(other->address == each.address
                          ? "the address " + text + " is there twice"
                          : "the addresses " + text + " and " + other->address.text() + " overlap");
  }
}

}  // namespace

std::vector<Listening> read_addresses(const ServerOptions& options,
                                      const std::vector<PassedSocket>& passed) {
  std::vector<Listening> all;
  for (const auto& [name, addresses] : options.addresses) {
    const ServedProtocol& protocol = find_protocol(name);
    for (const ServedAddress& address : addresses) {
      all.push_back(read_address(protocol, address, options));
    }
  }
  if (all.empty()) throw ConfigError("there is no address to serve on");
  use_passed_sockets(passed, all);
  require_apart(all);
  return all;
}

void check_places(const std::vector<Listening>& listening) {
  try {
    for (const Listening& each : listening) check_place(each.address);
  } catch (const ListenError& error) {
    throw ConfigError(error.what());
  }
}

void refuse_pipes(const std::vector<Listening>& listening) {
  for (const Listening& each : listening) {
    for (const std::string& file : {each.tls.certificate, each.tls.key, each.tls.client_ca}) {
      if (!is_special_file(file)) continue;
      throw ConfigError("the file for TLS " + file +
                        " is no regular file, and only at the start may it be a pipe");
    }
  }
}

TlsServers make_tls_servers(const std::vector<Listening>& listening) {
  TlsServers servers;
  std::string errors;
  for (const Listening& each : listening) {
    if (each.tls.certificate.empty() || servers.contains(each.tls)) continue;
    std::shared_ptr<const TlsServer>& made = servers[each.tls];
    try {
      made = std::make_shared<TlsServer>(each.tls);
    } catch (const std::runtime_error& error) {
      errors += (errors.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  if (!errors.empty()) throw ConfigError(errors);
  return servers;
}

}  // namespace sluice
