#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "net/unique_fd.h"

namespace sluice::servers {

/// How long anything here waits before it gives up and throws.
inline constexpr std::chrono::seconds kPatience{10};

/// A port of 127.0.0.1 on which nobody listens, a different one with each call. Below the ports
/// that the system gives to outgoing connections, so that it is still free when a server comes
/// back.
std::uint16_t free_port();

/// A listening, non-blocking socket on that port of 127.0.0.1. Throws std::system_error.
UniqueFd listen_on(std::uint16_t port);

/// A blocking connection. Whatever fails, or takes longer than kPatience, throws
/// std::runtime_error. One thread at a time.
class Socket {
 public:
  /// To 127.0.0.1.
  static Socket to_port(std::uint16_t port);
  static Socket to_path(const std::filesystem::path& path);

  void send(std::string_view bytes);
  /// The next line, without its CR LF.
  std::string read_line();
  std::string read(std::size_t bytes);

  UniqueFd& descriptor() { return fd_; }

 private:
  explicit Socket(UniqueFd fd);
  void receive();

  UniqueFd fd_;
  std::string received_;
};

}  // namespace sluice::servers
