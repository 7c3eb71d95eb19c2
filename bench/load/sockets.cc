#include "load/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

namespace sluice::bench {
namespace {

constexpr int kBacklog = 1024;
constexpr std::string_view kNoAddress = "it is not IPV4:PORT";

std::optional<sockaddr_in> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string host(text.substr(0, colon));
  const std::string_view port_text = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  sockaddr_in address{};
  if (error != std::errc() || end != port_text.data() + port_text.size() ||
      inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return std::nullopt;
  }
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return address;
}

OpenedSocket refuse(std::string_view action, std::string_view address, std::string_view reason) {
  return {.socket = Socket(),
          .error = std::string(action) + " '" + std::string(address) + "': " + std::string(reason)};
}

bool set_non_blocking(int fd) {
  return fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.fd_;
    other.fd_ = -1;
  }
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

OpenedSocket connect_to(std::string_view text) {
  const std::optional<sockaddr_in> address = parse_address(text);
  if (!address) return refuse("cannot connect to", text, kNoAddress);
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket ||
      connect(socket.fd(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return refuse("cannot connect to", text, std::generic_category().message(errno));
  }
  set_no_delay(socket.fd());
  if (!set_non_blocking(socket.fd()))
    return refuse("cannot use", text, std::generic_category().message(errno));
  return {.socket = std::move(socket), .error = {}};
}

OpenedSocket listen_on(std::string_view text) {
  const std::optional<sockaddr_in> address = parse_address(text);
  if (!address) return refuse("cannot listen on", text, kNoAddress);
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (!socket || setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(socket.fd(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0 ||
      listen(socket.fd(), kBacklog) != 0 || !set_non_blocking(socket.fd())) {
    return refuse("cannot listen on", text, std::generic_category().message(errno));
  }
  return {.socket = std::move(socket), .error = {}};
}

void set_no_delay(int fd) {
  const int yes = 1;
  static_cast<void>(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)));
}

}  // namespace sluice::bench
