#include "limiter/ip_address.h"

#include <boost/algorithm/string/classification.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "core/read_number.h"

namespace sluice {
namespace {

namespace ip = boost::asio::ip;

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  return read_number(text, port);
}

// Only an IPv6 address has a zone, and none is empty.
std::optional<IpAddress> parse_zoned(std::string_view text) {
  const std::size_t percent = text.find('%');
  if (percent == std::string_view::npos) return parse_ip_address(text);
  const std::string_view address = text.substr(0, percent);
  if (percent + 1 == text.size() || address.find(':') == std::string_view::npos) return {};
  return parse_ip_address(address);
}

std::optional<IpAddress> parse_bracketed(std::string_view text) {
  const std::size_t close = text.find(']');
  if (close == std::string_view::npos) return {};
  const std::string_view address = text.substr(1, close - 1);
  const std::string_view rest = text.substr(close + 1);
  if (address.find(':') == std::string_view::npos) return {};
  if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return {};
  return parse_zoned(address);
}

}  // namespace

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  if (text.find_first_of(std::string_view("%\0", 2)) != std::string_view::npos) return {};
  boost::system::error_code error;
  const IpAddress address = ip::make_address(std::string(text), error);
  if (error) return {};
  const bool is_mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return is_mapped ? ip::make_address_v4(ip::v4_mapped, address.to_v6()) : address;
}

IpAddress network_of(const IpAddress& address, int prefix) {
  assert(0 <= prefix && prefix <= bits_of(address));
  const auto length = static_cast<unsigned short>(prefix);
  if (address.is_v4()) return ip::network_v4(address.to_v4(), length).network();
  return ip::network_v6(address.to_v6(), length).network();
}

std::optional<IpAddress> parse_ip_endpoint(std::string_view text) {
  text = boost::algorithm::trim_copy_if(text, boost::algorithm::is_any_of(" \t"));
  if (text.starts_with('[')) return parse_bracketed(text);
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos && colon == text.rfind(':')) {
    if (!is_port(text.substr(colon + 1))) return {};
    text = text.substr(0, colon);
  }
  return parse_zoned(text);
}

}  // namespace sluice
