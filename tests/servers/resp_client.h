#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "servers/socket.h"

namespace sluice::servers {

/// One reply of RESP2.
struct Reply {
  /// The first byte on the wire: + - : $ or *, and _ for null.
  char type = '_';
  /// The line or the bulk string: of an error all after the '-'; empty for null and arrays.
  std::string text = {};
  std::vector<Reply> elements = {};

  bool is_error() const { return type == '-'; }
  /// As a person reads it: an error with its '-', an array as one line for each element, null as
  /// "(nil)".
  std::string printed() const;

  friend bool operator==(const Reply&, const Reply&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Reply& reply) {
    return out << reply.printed();
  }
};

/// The words as one command: an array of bulk strings.
std::string encode_command(const std::vector<std::string>& words);

/// A blocking client that shares no code with what is tested. Everything throws as Socket does, and
/// where a reply is none. One thread at a time.
class RespClient {
 public:
  /// To 127.0.0.1.
  explicit RespClient(std::uint16_t port) : socket_(Socket::to_port(port)) {}
  explicit RespClient(const std::filesystem::path& path) : socket_(Socket::to_path(path)) {}

  /// Sends one command and waits for its reply, which may be an error.
  Reply ask(const std::vector<std::string>& words);

  /// Any bytes, in place of ask(), and then the reply to each command in them.
  void send(std::string_view bytes) { socket_.send(bytes); }
  Reply read();

 private:
  Socket socket_;
};

}  // namespace sluice::servers
