#include "server/service_manager.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "core/read_number.h"
#include "server/config_error.h"

namespace sluice {
namespace {

// The first descriptor that is passed.
constexpr int kFirstDescriptor = 3;
constexpr int kMostDescriptors = 1'000;

// Removes a variable, and returns its value; nothing if it does not exist.
std::optional<std::string> take_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  std::string taken = value;
  ::unsetenv(name);
  return taken;
}

// -1 if the text is not a number.
int number_in(const std::string& text) {
  int number = -1;
  return read_number(text, number) ? number : -1;
}

int option_of(int socket, int name) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

template <class T>
T read_as(const sockaddr_storage& bytes) {
  T address;
  std::memcpy(&address, &bytes, sizeof address);
  return address;
}

std::string numeric(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, address, text.data(), text.size());
}

// The address to which a socket is bound; nothing if it has no Address.
std::optional<Address> address_of(int socket) {
  sockaddr_storage bytes{};
  socklen_t length = sizeof bytes;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&bytes), &length) != 0) return {};
  if (bytes.ss_family == AF_INET) {
    const auto ip = read_as<sockaddr_in>(bytes);
    return Address{Address::Family::kIpv4, numeric(AF_INET, &ip.sin_addr), ntohs(ip.sin_port)};
  }
  if (bytes.ss_family == AF_INET6) {
    const auto ip = read_as<sockaddr_in6>(bytes);
    return Address{Address::Family::kIpv6, numeric(AF_INET6, &ip.sin6_addr), ntohs(ip.sin6_port)};
  }
  const auto unix_address = read_as<sockaddr_un>(bytes);
  const std::string path(unix_address.sun_path,
                         ::strnlen(unix_address.sun_path, sizeof unix_address.sun_path));
  if (bytes.ss_family != AF_UNIX || length <= sizeof(sa_family_t) || path.empty()) return {};
  return Address{Address::Family::kUnix, path, 0};
}

PassedSocket passed_socket(int descriptor) {
  const bool listens =
      option_of(descriptor, SO_TYPE) == SOCK_STREAM && option_of(descriptor, SO_ACCEPTCONN) == 1;
  const std::optional<Address> address = listens ? address_of(descriptor) : std::nullopt;
  if (!address) {
    throw ConfigError("the service manager has passed descriptor " + std::to_string(descriptor) +
                      ", which is no stream socket that listens at an IP address or a path");
  }
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return {*address, descriptor};
}

}  // namespace

void notify_service_manager(std::string_view state) {
  const char* named = std::getenv("NOTIFY_SOCKET");
  const std::string_view path = named != nullptr ? named : "";
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(to.sun_path)) return;
  path.copy(to.sun_path, path.size());
  // A name in Linux's abstract namespace begins with a zero byte, which is written as '@'.
  if (path.front() == '@') to.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
           length);
  ::close(fd);
}

void notify_reloading() {
  // CLOCK_MONOTONIC, by which the service manager distinguishes this reload from earlier ones.
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  notify_service_manager("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now_us));
}

std::vector<PassedSocket> take_passed_sockets() {
  const auto process = take_variable("LISTEN_PID");
  const auto count = take_variable("LISTEN_FDS");
  take_variable("LISTEN_FDNAMES");
  if (!process || !count || number_in(*process) != ::getpid()) return {};
  const int sockets = number_in(*count);
  if (sockets < 0 || sockets > kMostDescriptors) {
    throw ConfigError("LISTEN_FDS must be a number of sockets, at most " +
                      std::to_string(kMostDescriptors));
  }
  std::vector<PassedSocket> passed;
  for (int i = 0; i < sockets; ++i) passed.push_back(passed_socket(kFirstDescriptor + i));
  return passed;
}

}  // namespace sluice
