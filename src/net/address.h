#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice {

/// Thrown if the server cannot listen on an address. what() is one sentence that names the address
/// and the reason.
class ListenError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where to listen: an IPv4 or IPv6 address with a port, or a Unix socket's path.
struct Address {
  enum class Family : std::uint8_t { kIpv4, kIpv6, kUnix };

  Family family = Family::kIpv4;
  /// The numeric address without brackets, an IPv6 address in its canonical form, or the path.
  std::string host;
  /// 0: any free port. Nothing for a Unix socket.
  std::uint16_t port = 0;

  /// Whether only programs on this machine can connect to it.
  bool is_local() const;
  /// In the form that parse_address() reads: "127.0.0.1:6380", "[::1]:6380",
  /// "unix:/run/sluice.sock".
  std::string text() const;

  friend bool operator==(const Address&, const Address&) = default;
};

struct ParsedAddress {
  std::optional<Address> address;
  /// If the text is not an address: one sentence that names the text and the error.
  std::string error;
};

/// Reads "ADDRESS:PORT" (numeric, IPv6 in brackets; "localhost" is 127.0.0.1) or "unix:PATH".
/// Texts of the same address give the same Address.
ParsedAddress parse_address(std::string_view text);

}  // namespace sluice
