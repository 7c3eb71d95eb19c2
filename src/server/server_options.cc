#include "server/server_options.h"

#include <utility>

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

ServerOptions options_of(ConfigFile file) {
  ServerOptions options;
  if (file.listen) {
    for (auto& [protocol, addresses] : options.addresses) addresses = (*file.listen)[protocol];
  }
  if (file.store) options.store = *std::move(file.store);
  if (file.tls) options.tls = *std::move(file.tls);
  if (file.drain) options.drain = *file.drain;
  if (file.max_client_bytes) options.max_client_bytes = *file.max_client_bytes;
  if (file.snapshot) options.snapshot = *std::move(file.snapshot);
  if (file.log_format) options.log.format = *file.log_format;
  if (file.log_level) options.log.level = *file.log_level;
  if (file.log_slow) options.log.slow = *file.log_slow;
  options.users = std::move(file.users);
  options.has_empty_users = file.has_empty_users;
  options.client_rules = std::move(file.client_rules);
  options.limits = std::move(file.limits);
  return options;
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
