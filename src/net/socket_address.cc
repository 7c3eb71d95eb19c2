#include "net/socket_address.h"

#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <system_error>

namespace sluice {
namespace {

constexpr std::size_t kMaxAddresses = 16;

FoundAddresses unix_address(const std::string& path) {
  if (path.size() > kMaxPathBytes) {
    return {{},
            "its path has " + std::to_string(path.size()) + " bytes, a socket's has " +
                std::to_string(kMaxPathBytes) + " at most"};
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, kMaxPathBytes);
  SocketAddress found;
  std::memcpy(&found.storage, &address, sizeof(address));
  found.bytes = sizeof(address);
  return {{found}, {}};
}

void set_port(SocketAddress& address, std::uint16_t port) {
  if (address.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(port);
  }
}

FoundAddresses ask_system(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    return {{}, error == EAI_SYSTEM ? std::generic_category().message(errno) : gai_strerror(error)};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(list, ::freeaddrinfo);
  FoundAddresses found;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    if (found.addresses.size() == kMaxAddresses) break;
    SocketAddress address;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.bytes = one->ai_addrlen;
    set_port(address, endpoint.port);
    found.addresses.push_back(address);
  }
  if (found.addresses.empty()) found.fault = "it has no IPv4 or IPv6 address";
  return found;
}

}  // namespace

std::string SocketAddress::text() const {
  if (family() == AF_UNIX) return {};
  std::array<char, NI_MAXHOST> text{};
  const int error =
      ::getnameinfo(get(), bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "?";
}

std::optional<FoundAddresses> known_address(const Endpoint& endpoint) {
  if (!endpoint.unix_path.empty()) return unix_address(endpoint.unix_path);
  FoundAddresses found = ask_system(endpoint, AI_NUMERICHOST);
  if (found.addresses.empty()) return std::nullopt;
  return found;
}

FoundAddresses look_up(const Endpoint& endpoint) {
  return ask_system(endpoint, 0);
}

}  // namespace sluice
