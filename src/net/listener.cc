#include "net/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

/// A peer that vanished without a word is noticed, so that it does not keep its place for ever.
constexpr int kKeepAliveIdleS = 300;

[[noreturn]] void fail(const Address& address, int error) {
  throw ListenError("cannot listen on " + address.text() + ": " +
                    std::generic_category().message(error));
}

/// A socket's address in the form the system wants.
struct SystemAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  explicit SystemAddress(const Address& address) {
    switch (address.family) {
      case Address::Family::kIpv4: {
        sockaddr_in v4{};
        v4.sin_family = AF_INET;
        v4.sin_port = htons(address.port);
        ::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr);
        set(v4);
        break;
      }
      case Address::Family::kIpv6: {
        sockaddr_in6 v6{};
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(address.port);
        ::inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr);
        set(v6);
        break;
      }
      case Address::Family::kUnix: {
        sockaddr_un local{};
        local.sun_family = AF_UNIX;
        address.host.copy(local.sun_path, sizeof(local.sun_path) - 1);
        set(local);
        break;
      }
    }
  }

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

 private:
  template <class Form>
  void set(const Form& form) {
    std::memcpy(&storage, &form, sizeof(form));
    bytes = sizeof(form);
  }
};

struct Option {
  int level;
  int name;
  int value = 1;
};

void set_option(int fd, const Option& option) {
  ::setsockopt(fd, option.level, option.name, &option.value, sizeof(option.value));
}

UniqueFd make_socket(const Address& address) {
  const int family = address.family == Address::Family::kIpv4   ? AF_INET
                     : address.family == Address::Family::kIpv6 ? AF_INET6
                                                                : AF_UNIX;
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) fail(address, errno);
  if (family == AF_INET6) set_option(fd.get(), {IPPROTO_IPV6, IPV6_V6ONLY});
  return fd;
}

void bind(int fd, const Address& address) {
  const SystemAddress system(address);
  if (::bind(fd, system.get(), system.bytes) != 0) fail(address, errno);
}

void bind_and_listen(int fd, const Address& address) {
  bind(fd, address);
  if (::listen(fd, kListenBacklog) != 0) fail(address, errno);
}

/// Throws ListenError where somebody listens on the port, which a socket that shares its port does
/// not notice: half of the connections would go to another server of this user, unseen. The probe
/// does not listen itself: who connected to it would lose the connection with it.
void expect_free(const Address& address) {
  const UniqueFd probe = make_socket(address);
  set_option(probe.get(), {SOL_SOCKET, SO_REUSEADDR});
  bind(probe.get(), address);
}

/// Accepted sockets inherit the options, which saves system calls per connection.
UniqueFd listen_tcp(const Address& address) {
  UniqueFd fd = make_socket(address);
  set_option(fd.get(), {SOL_SOCKET, SO_REUSEADDR});
  set_option(fd.get(), {SOL_SOCKET, SO_REUSEPORT});
  set_option(fd.get(), {IPPROTO_TCP, TCP_NODELAY});
  set_option(fd.get(), {SOL_SOCKET, SO_KEEPALIVE});
  set_option(fd.get(), {IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleS});
  bind_and_listen(fd.get(), address);
  return fd;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &bytes);
  // The port stands at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

/// A file at `address` that is a socket's, and the socket is gone. The probe is for datagrams: one
/// for streams would be refused as well by a socket that does not listen yet, while this one is
/// told that the types differ. Nor does it stand among those who wait to be accepted.
bool is_stale(const Address& address) {
  struct stat status {};
  if (::lstat(address.host.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const UniqueFd probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SystemAddress system(address);
  return ::connect(probe.get(), system.get(), system.bytes) != 0 && errno == ECONNREFUSED;
}

}  // namespace

Listener::Listener(const Address& address, std::size_t threads) : address_(address) {
  if (address.family == Address::Family::kUnix) {
    open_unix();
  } else {
    open_tcp(threads);
  }
}

Listener::~Listener() {
  remove_file();
}

void Listener::open_tcp(std::size_t threads) {
  if (address_.port != 0) expect_free(address_);
  for (std::size_t i = 0; i < threads; ++i) {
    sockets_.push_back(listen_tcp(address_));
    if (address_.port == 0) address_.port = port_of(sockets_.back().get());
  }
}

void Listener::open_unix() {
  if (is_stale(address_)) ::unlink(address_.host.c_str());
  UniqueFd fd = make_socket(address_);
  bind_and_listen(fd.get(), address_);
  struct stat status {};
  if (::lstat(address_.host.c_str(), &status) == 0) {
    file_device_ = status.st_dev;
    file_inode_ = status.st_ino;
  }
  sockets_.push_back(std::move(fd));
}

void Listener::remove_file() {
  const std::uint64_t inode = std::exchange(file_inode_, 0);
  if (inode == 0) return;
  struct stat status {};
  const bool is_ours = ::lstat(address_.host.c_str(), &status) == 0 &&
                       status.st_dev == file_device_ && status.st_ino == inode;
  if (is_ours) ::unlink(address_.host.c_str());
}

}  // namespace sluice
