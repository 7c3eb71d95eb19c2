#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <vector>

#include "net/endpoint.h"

namespace sluice {

/// The longest path of a socket.
inline constexpr std::size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;

/// What connect() takes.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  /// The numeric address without its port; "" for a Unix socket.
  std::string text() const;
};

/// Either some addresses, or why there are none.
struct FoundAddresses {
  std::vector<SocketAddress> addresses;
  std::string fault;
};

/// The address of a numeric host or of a Unix socket (which may be no usable path), at once. Null
/// for a host's name, which has to be looked up.
std::optional<FoundAddresses> known_address(const Endpoint& endpoint);

/// Asks the system for the addresses of a host's name, in the order to try them, at most 16. May
/// take as long as the system's resolver is patient: many seconds.
FoundAddresses look_up(const Endpoint& endpoint);

}  // namespace sluice
