#include "servers/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace sluice::servers {
namespace {

constexpr unsigned kFirstPort = 20'000;
constexpr unsigned kPorts = 12'000;
// A program takes so many ports at a time.
constexpr unsigned kPortsAtOnce = 100;
constexpr int kBacklog = 128;

sockaddr_in local(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

UniqueFd open_socket(int family, int flags = 0) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!fd) fail("cannot make a socket");
  return fd;
}

bool bind_to(const UniqueFd& fd, std::uint16_t port) {
  const sockaddr_in address = local(port);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

/// Takes some ports from all other programs that use this, until this program ends, also while no
/// server listens on them: by a Unix socket that has a name of its own, and no file. False if
/// another program has them. Called by one thread at a time.
bool take_ports(unsigned which) {
  static std::map<unsigned, UniqueFd> taken;
  if (taken.contains(which)) return true;
  UniqueFd claim = open_socket(AF_UNIX);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The name begins with a zero byte.
  const std::string name = "sluice-test-ports-" + std::to_string(which);
  name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(claim.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    if (errno == EADDRINUSE) return false;
    throw std::system_error(errno, std::generic_category(), "bind to " + name);
  }
  taken.emplace(which, std::move(claim));
  return true;
}

}  // namespace

std::uint16_t free_port() {
  static std::mutex mutex;
  static unsigned next = static_cast<unsigned>(::getpid()) * kPortsAtOnce;
  const std::lock_guard lock(mutex);
  for (unsigned tries = 0; tries < kPorts; ++tries) {
    const unsigned number = next++ % kPorts;
    const auto port = static_cast<std::uint16_t>(kFirstPort + number);
    if (take_ports(number / kPortsAtOnce) && bind_to(open_socket(AF_INET), port)) return port;
  }
  throw std::runtime_error("no port of 127.0.0.1 is free");
}

UniqueFd listen_on(std::uint16_t port) {
  UniqueFd fd = open_socket(AF_INET, SOCK_NONBLOCK);
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  // Accepted connections inherit this: a second reply need not wait until the first is
  // acknowledged.
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (!bind_to(fd, port) || ::listen(fd.get(), kBacklog) != 0) {
    fail("cannot listen on 127.0.0.1:" + std::to_string(port));
  }
  return fd;
}

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd = open_socket(AF_INET);
  const sockaddr_in address = local(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fail("cannot connect to 127.0.0.1:" + std::to_string(port));
  }
  const int yes = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return fd;
}

UniqueFd connect_to(const std::filesystem::path& path) {
  UniqueFd fd = open_socket(AF_UNIX);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof(address.sun_path)) {
    throw std::runtime_error("too long for a socket: " + path.native());
  }
  path.native().copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fail("cannot connect to " + path.native());
  }
  return fd;
}

std::string read_line(Peer& peer) {
  std::string line = peer.line();
  if (!line.ends_with("\r\n")) throw std::runtime_error("there is no whole line to read");
  line.resize(line.size() - 2);
  return line;
}

}  // namespace sluice::servers
