#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// An IPv4 or IPv6 address. An IPv4 address is kept as IPv6 has it, ::ffff:a.b.c.d, so that both
/// ways to write it are the same address.
class IpAddress {
 public:
  /// Reads a numeric address and nothing else. Octets with leading zeros, which some read as octal,
  /// are refused. Nothing where it cannot be read.
  static std::optional<IpAddress> parse(std::string_view text);

  bool is_ipv4() const;
  /// How many bits an address of its kind has: 32 or 128.
  int bits() const { return is_ipv4() ? 32 : 128; }
  /// The address with all but its first `prefix` bits cleared. REQUIRES: 0 <= prefix <= bits().
  IpAddress network(int prefix) const;
  /// The canonical text: 203.0.113.7, 2001:db8::1.
  std::string text() const;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;

 private:
  std::array<std::uint8_t, 16> bytes_{};
};

/// Reads an address with or without a port, and with spaces around it: 1.2.3.4, 1.2.3.4:80, ::1,
/// [::1], [::1]:80. The zone of an IPv6 address (fe80::1%eth0) is dropped. Nothing if it cannot be
/// read.
std::optional<IpAddress> parse_ip_endpoint(std::string_view text);

/// All addresses that begin with the first `prefix` bits of `network`, whose other bits are clear.
struct IpRange {
  IpAddress network;
  int prefix = 0;

  /// An IPv4 address is never in a range of IPv6.
  bool contains(const IpAddress& address) const {
    return address.is_ipv4() == network.is_ipv4() && address.network(prefix) == network;
  }
};

struct ParsedIpRange {
  std::optional<IpRange> range;
  /// Where there is no range: what is wrong, to follow the text and a colon.
  std::string error;
};

/// Reads ADDRESS or ADDRESS/BITS; ::ffff:10.0.0.0/104 is 10.0.0.0/8.
ParsedIpRange parse_ip_range(std::string_view text);

}  // namespace sluice
