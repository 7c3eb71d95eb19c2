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
  /// Implicit, so that a list of addresses can be written as one of texts.
  ServedAddress(std::string address) : text(std::move(address)) {}
  ServedAddress(const char* address) : text(address) {}
  ServedAddress(std::string address, std::optional<TlsServerFiles> files)
      : text(std::move(address)), tls(std::move(files)) {}

  /// "ADDRESS:PORT" or "unix:PATH"; port 0 is any free one.
  std::string text;
  /// The files for TLS; without a certificate, TLS is not spoken. If this is nothing, the address
  /// has those of ServerOptions::tls, unless it is a Unix socket's, where TLS is not spoken.
  std::optional<TlsServerFiles> tls;

  friend bool operator==(const ServedAddress&, const ServedAddress&) = default;
};

/// By the protocol's name: where it is served.
using ServedAddresses = std::map<std::string, std::vector<ServedAddress>>;

}  // namespace sluice
