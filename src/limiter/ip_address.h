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

}  // namespace sluice
