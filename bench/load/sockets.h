#pragma once

#include <string>
#include <string_view>

namespace sluice::bench {

/// A file descriptor, closed when it goes out of scope.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A socket, or one sentence that says why there is none.
struct OpenedSocket {
  Socket socket;
  std::string error;
};

/// Addresses are "127.0.0.1:6380" (IPv4, no names).
/// Connects. The socket is non-blocking and without Nagle's delay.
OpenedSocket connect_to(std::string_view address);

/// Listens on a non-blocking socket.
OpenedSocket listen_on(std::string_view address);

/// Makes a connection send each write at once.
void set_no_delay(int fd);

}  // namespace sluice::bench
