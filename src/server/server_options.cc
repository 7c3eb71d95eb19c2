#include "server/server_options.h"

#include "server/protocols.h"

namespace sluice {

ServedAddresses default_addresses() {
  ServedAddresses addresses;
  for (const ServedProtocol& protocol : protocols()) {
    auto& its = addresses[protocol.name];
    if (*protocol.default_address != '\0') its.emplace_back(protocol.default_address);
  }
  return addresses;
}

std::set<std::string> certificate_files(const ServerOptions& options) {
  std::set<std::string> files;
  const auto add = [&](const TlsServerFiles& tls) {
    files.insert({tls.certificate, tls.key, tls.client_ca});
  };
  add(options.tls);
  for (const auto& [protocol, addresses] : options.addresses) {
    for (const ServedAddress& address : addresses) {
      if (address.tls) add(*address.tls);
    }
  }
  files.erase("");
  return files;
}

}  // namespace sluice
