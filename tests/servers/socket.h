#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "testing/unique_fd.h"

namespace sluice::servers {

/// The timeout of all waits here, after which they throw. A sentinel corrects a server that missed
/// its order to follow another one only after 10 s, when it asks for INFO again.
inline constexpr std::chrono::seconds kPatience{30};

/// A free port of 127.0.0.1, a different one with each call, in all programs that run. It is below
/// the ports that the system uses for outgoing connections, so that it is still free when a server
/// restarts.
std::uint16_t free_port();

/// A listening, non-blocking socket on that port of 127.0.0.1. Throws std::system_error.
UniqueFd listen_on(std::uint16_t port);

/// A blocking connection. A function that fails, or takes longer than kPatience, throws
/// std::runtime_error. Not thread-safe.
class Socket {
 public:
  /// Connects to 127.0.0.1.
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
