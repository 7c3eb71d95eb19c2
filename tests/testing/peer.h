#pragma once

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "testing/unique_fd.h"

namespace sluice {

inline constexpr int kPatienceMs = 10'000;

/// A test's end of a connection. Its functions wait up to ten seconds, or as long as it is told.
class Peer {
 public:
  explicit Peer(UniqueFd socket, int patience_ms = kPatienceMs) : socket_(std::move(socket)) {
    const timeval patience{.tv_sec = patience_ms / 1000, .tv_usec = 0};
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

  /// So many bytes, or those up to the end of the stream.
  std::string read(std::size_t bytes) {
    std::string text(bytes, '\0');
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t n = ::recv(socket_.get(), text.data() + got, bytes - got, 0);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    return text.substr(0, got);
  }

  /// All bytes until the other side ends the stream; with "(reset)" or "(timeout)" at the end if it
  /// does not.
  std::string read_all() {
    std::string text;
    std::string piece(65536, '\0');
    while (true) {
      const ssize_t n = ::recv(socket_.get(), piece.data(), piece.size(), 0);
      if (n == 0) return text;
      if (n < 0) return text + (errno == EAGAIN ? "(timeout)" : "(reset)");
      text.append(piece, 0, static_cast<std::size_t>(n));
    }
  }
  bool ends_in_reset() { return read_all().ends_with("(reset)"); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// Sends a line and reads it back.
  bool echoes(std::string_view line) { return send(line) && read(line.size()) == line; }

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

}  // namespace sluice
