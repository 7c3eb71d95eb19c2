#pragma once

#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// An IPv4 or IPv6 address.
using IpAddress = boost::asio::ip::address;

/// Reads a numeric address and nothing else. An IPv4 address that is written as IPv6 has it,
/// ::ffff:a.b.c.d, becomes IPv4: both are the same address. Octets with leading zeros, which some
/// read as octal, are refused. Nothing where it cannot be read.
std::optional<IpAddress> parse_ip_address(std::string_view text);

/// How many bits an address of its kind has: 32 or 128.
inline int bits_of(const IpAddress& address) {
  return address.is_v4() ? 32 : 128;
}

/// The address with all but its first `prefix` bits cleared. REQUIRES: 0 <= prefix <= bits_of().
IpAddress network_of(const IpAddress& address, int prefix);

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
    return address.is_v4() == network.is_v4() && network_of(address, prefix) == network;
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
