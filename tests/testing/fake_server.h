#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "net/endpoint.h"
#include "testing/unique_fd.h"

namespace sluice {

inline constexpr int kPatienceMs = 10'000;

/// The server's end of a connection, for a test. Its functions wait up to ten seconds.
class Peer {
 public:
  explicit Peer(UniqueFd socket) : socket_(std::move(socket)) {
    const timeval patience{.tv_sec = kPatienceMs / 1000, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  }

  /// The bytes up to and including the next line end, or up to the end of the stream.
  std::string line() {
    std::string text;
    std::array<char, 4096> piece;
    while (!text.ends_with('\n')) {
      // What stands behind the line is left to the next call.
      const ssize_t seen = ::recv(socket_.get(), piece.data(), piece.size(), MSG_PEEK);
      if (seen <= 0) break;
      const std::string_view bytes(piece.data(), static_cast<std::size_t>(seen));
      const std::size_t size = std::min(bytes.find('\n'), bytes.size() - 1) + 1;
      if (::recv(socket_.get(), piece.data(), size, 0) < 0) break;
      text.append(bytes.substr(0, size));
    }
    return text;
  }

  std::string lines(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += line();
    return text;
  }

  /// Reads `bytes` bytes, or up to the end of the stream. Returns how many it has read.
  std::size_t skip(std::size_t bytes) {
    std::string piece(65536, '\0');
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t n = ::recv(socket_.get(), piece.data(), std::min(piece.size(), bytes - got), 0);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }

  /// Reads up to the end of the stream. Returns whether the connection was reset.
  bool ends_in_reset() {
    errno = 0;
    skip(std::numeric_limits<std::size_t>::max());
    return errno == ECONNRESET;
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  /// The number of bytes that have arrived and are not read.
  std::size_t unread_bytes() const {
    int bytes = 0;
    ::ioctl(socket_.get(), FIONREAD, &bytes);
    return static_cast<std::size_t>(bytes);
  }

  /// Waits until bytes arrive.
  bool await() const {
    pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, kPatienceMs) == 1;
  }

  void close() { socket_.reset(); }
  /// Ends its own side only.
  void end() { ::shutdown(socket_.get(), SHUT_WR); }
  /// Makes sending fail on the other side.
  void reset() {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close();
  }

  int fd() const { return socket_.get(); }

 private:
  UniqueFd socket_;
};

/// A listening socket whose connections a test accepts and serves itself.
class FakeServer {
 public:
  /// On a free port of 127.0.0.1.
  explicit FakeServer(int backlog = 16) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    require(::bind(socket_.get(), generic, bytes) == 0);
    // Without a backlog the port is taken, and connections to it are refused.
    require(backlog < 0 || ::listen(socket_.get(), backlog) == 0);
    require(::getsockname(socket_.get(), generic, &bytes) == 0);
    endpoint_ = {.host = "127.0.0.1", .port = ntohs(address.sin_port)};
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
