#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "servers/socket.h"

namespace sluice::servers {

/// A RESP2 reply.
struct Reply {
  /// The first byte: + - : $ or *, and _ for null.
  char type = '_';
  /// The line or the bulk string (of an error, the text after the '-'); empty for null and arrays.
  std::string text = {};
  std::vector<Reply> elements = {};

  bool is_error() const { return type == '-'; }
  /// As text for people: an error with its '-', an array as one line for each element, null as
  /// "(nil)".
  std::string printed() const;

  friend bool operator==(const Reply&, const Reply&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Reply& reply) {
    return out << reply.printed();
  }
};

/// Encodes a command as an array of bulk strings.
std::string encode_command(const std::vector<std::string>& words);

/// A blocking client that shares no code with the tested modules. Its functions throw
/// std::runtime_error if they fail, take longer than kPatience, or if a reply is malformed. Not
/// thread-safe.
class RespClient {
 public:
  explicit RespClient(Peer peer) : peer_(std::move(peer)) {}
  /// Connects to 127.0.0.1.
  explicit RespClient(std::uint16_t port) : peer_(peer_at(port)) {}
  explicit RespClient(const std::filesystem::path& path) : peer_(peer_at(path)) {}

  /// Sends one command and waits for its reply, which may be an error.
  Reply ask(const std::vector<std::string>& words);

  /// Instead of ask(): send any bytes, then read the reply to each command in them.
  void send(std::string_view bytes);
  Reply read();

 private:
  Peer peer_;
};

}  // namespace sluice::servers
