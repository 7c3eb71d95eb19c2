#include "net/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/datagram_protocol.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/system/system_error.hpp>
#include <cassert>
#include <filesystem>
#include <utility>

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using SocketEndpoint = asio::generic::stream_protocol::endpoint;

/// A peer that vanished without a word is noticed, so that it does not keep its place for ever.
constexpr int kKeepAliveIdleS = 300;

SocketEndpoint endpoint_of(const Address& address) {
  if (address.family == Address::Family::kUnix) {
    return asio::local::stream_protocol::endpoint(address.host);
  }
  return asio::ip::tcp::endpoint(asio::ip::make_address(address.host), address.port);
}

std::uint16_t port_of(const SocketEndpoint& endpoint) {
  // The port stands at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(endpoint.data())->sin_port);
}

struct Option {
  int level;
  int name;
  int value = 1;
};

void set_option(ServingAcceptor& socket, const Option& option) {
  ::setsockopt(socket.native_handle(), option.level, option.name, &option.value,
               sizeof(option.value));
}

ServingAcceptor open_tcp(asio::io_context& context, const SocketEndpoint& endpoint) {
  ServingAcceptor socket(context);
  socket.open(endpoint.protocol());
  if (endpoint.protocol().family() == AF_INET6) set_option(socket, {IPPROTO_IPV6, IPV6_V6ONLY});
  set_option(socket, {SOL_SOCKET, SO_REUSEADDR});
  return socket;
}

/// Accepted sockets inherit the options, which saves system calls per connection.
ServingAcceptor listen_tcp(asio::io_context& context, const SocketEndpoint& endpoint) {
  ServingAcceptor socket = open_tcp(context, endpoint);
  set_option(socket, {SOL_SOCKET, SO_REUSEPORT});
  set_option(socket, {IPPROTO_TCP, TCP_NODELAY});
  set_option(socket, {SOL_SOCKET, SO_KEEPALIVE});
  set_option(socket, {IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleS});
  socket.bind(endpoint);
  socket.listen(kListenBacklog);
  return socket;
}

/// Throws where the port is listened on, which a socket that shares its port does not notice: half
/// of the connections would go to another server of this user, unseen. The probe does not listen
/// itself: a client that connected to it would lose the connection with it.
void expect_free(asio::io_context& context, const SocketEndpoint& endpoint) {
  open_tcp(context, endpoint).bind(endpoint);
}

/// A file at `path` that is a socket's, and the socket is gone. The probe is for datagrams: one for
/// streams would be refused as well by a socket that does not listen yet, while this one is told
/// that the types differ. Nor does it wait to be accepted.
bool is_stale(asio::io_context& context, const std::string& path) {
  error_code error;
  if (!std::filesystem::is_socket(std::filesystem::symlink_status(path, error))) return false;
  asio::local::datagram_protocol::socket probe(context);
  probe.connect(path, error);
  return error == asio::error::connection_refused;
}

ServingAcceptor listen_unix(asio::io_context& context, const std::string& path) {
  if (is_stale(context, path)) ::unlink(path.c_str());
  const SocketEndpoint endpoint = asio::local::stream_protocol::endpoint(path);
  ServingAcceptor socket(context, endpoint.protocol());
  socket.bind(endpoint);
  socket.listen(kListenBacklog);
  return socket;
}

}  // namespace

Listener::Listener(const Address& address, const std::vector<asio::io_context*>& contexts)
    : address_(address) {
  assert(!contexts.empty());
  try {
    if (address.family == Address::Family::kUnix) {
      sockets_.push_back(listen_unix(*contexts[0], address.host));
      struct stat status {};
      if (::lstat(address.host.c_str(), &status) == 0) {
        file_device_ = status.st_dev;
        file_inode_ = status.st_ino;
      }
      return;
    }
    if (address.port != 0) expect_free(*contexts[0], endpoint_of(address));
    for (asio::io_context* context : contexts) {
      sockets_.push_back(listen_tcp(*context, endpoint_of(address_)));
      address_.port = port_of(sockets_.back().local_endpoint());
    }
  } catch (const boost::system::system_error& error) {
    throw ListenError("cannot listen on " + address_.text() + ": " + error.code().message());
  }
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
