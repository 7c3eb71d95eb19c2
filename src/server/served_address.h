#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/tls_server.h"

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

}  // namespace sluice
