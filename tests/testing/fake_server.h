#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <stdexcept>

#include "net/endpoint.h"
#include "testing/peer.h"

namespace sluice {

/// A listening socket whose connections a test accepts and serves itself.
class FakeServer {
 public:
  /// On a free port of 127.0.0.1.
  explicit FakeServer(int backlog = 16) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    boost::asio::ip::tcp::endpoint address(boost::asio::ip::address_v4::loopback(), 0);
    auto bytes = static_cast<socklen_t>(address.size());
    require(::bind(socket_.get(), address.data(), bytes) == 0);
    // Without a backlog the port is taken, and connections to it are refused.
    require(backlog < 0 || ::listen(socket_.get(), backlog) == 0);
    require(::getsockname(socket_.get(), address.data(), &bytes) == 0);
    endpoint_ = {.host = "127.0.0.1", .port = address.port()};
  }

  const Endpoint& endpoint() const { return endpoint_; }

  /// Whether a client has connected and was not accepted.
  bool has_caller(int wait_ms = 0) const {
    pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, wait_ms) == 1;
  }
  /// Refuses connections from now on.
  void stop_listening() { ::shutdown(socket_.get(), SHUT_RD); }

  Peer accept() {
    require(has_caller(kPatienceMs));
    UniqueFd peer(::accept(socket_.get(), nullptr, nullptr));
    require(static_cast<bool>(peer));
    return Peer(std::move(peer));
  }

 private:
  static void require(bool holds) {
    if (!holds) throw std::runtime_error("the test's server has no connection");
  }

  UniqueFd socket_;
  Endpoint endpoint_;
};

}  // namespace sluice
