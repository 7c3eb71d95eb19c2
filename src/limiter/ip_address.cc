#include "limiter/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

constexpr std::array<std::uint8_t, 12> kIpv4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kIpv4PrefixBits = 96;

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

bool is_port(std::string_view text) {
  return parse_number<std::uint16_t>(text).has_value();
}

std::string_view without_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Only an IPv6 address has a zone, and none is empty.
std::optional<IpAddress> parse_zoned(std::string_view text) {
  const std::size_t percent = text.find('%');
  if (percent == std::string_view::npos) return IpAddress::parse(text);
  const std::string_view address = text.substr(0, percent);
  if (percent + 1 == text.size() || address.find(':') == std::string_view::npos) return {};
  return IpAddress::parse(address);
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

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) return {};
  std::copy(text.begin(), text.end(), terminated.begin());

  IpAddress address;
  if (::inet_pton(AF_INET6, terminated.data(), address.bytes_.data()) == 1) return address;
  std::copy(kIpv4Prefix.begin(), kIpv4Prefix.end(), address.bytes_.begin());
  if (::inet_pton(AF_INET, terminated.data(), &address.bytes_[kIpv4Prefix.size()]) == 1) {
    return address;
  }
  return {};
}

bool IpAddress::is_ipv4() const {
  return std::equal(kIpv4Prefix.begin(), kIpv4Prefix.end(), bytes_.begin());
}

IpAddress IpAddress::network(int prefix) const {
  assert(0 <= prefix && prefix <= bits());
  IpAddress result = *this;
  int kept = is_ipv4() ? kIpv4PrefixBits + prefix : prefix;
  for (std::uint8_t& byte : result.bytes_) {
    const int clear = 8 - std::clamp(kept, 0, 8);
    byte = static_cast<std::uint8_t>(byte & (0xff << clear));
    kept -= 8;
  }
  return result;
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (is_ipv4()) {
    ::inet_ntop(AF_INET, &bytes_[kIpv4Prefix.size()], terminated.data(), terminated.size());
  } else {
    ::inet_ntop(AF_INET6, bytes_.data(), terminated.data(), terminated.size());
  }
  return terminated.data();
}

std::optional<IpAddress> parse_ip_endpoint(std::string_view text) {
  text = without_spaces(text);
  if (text.starts_with('[')) return parse_bracketed(text);
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos && colon == text.rfind(':')) {
    if (!is_port(text.substr(colon + 1))) return {};
    text = text.substr(0, colon);
  }
  return parse_zoned(text);
}

ParsedIpRange parse_ip_range(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view address_text = text.substr(0, slash);
  const std::optional<IpAddress> address = IpAddress::parse(address_text);
  if (!address) return {{}, "write an address, 10.1.2.3, or a range, 10.0.0.0/8"};
  if (slash == std::string_view::npos) return {IpRange{*address, address->bits()}, {}};

  const bool mapped = address->is_ipv4() && address_text.find(':') != std::string_view::npos;
  const int most = mapped ? 128 : address->bits();
  const std::optional<int> written = parse_number<int>(text.substr(slash + 1));
  if (!written || *written < 0 || *written > most) {
    return {{}, "the number after the slash must be from 1 to " + std::to_string(most)};
  }
  const int prefix = mapped ? *written - kIpv4PrefixBits : *written;
  if (prefix <= 0) return {{}, "it holds every address, so that any client could choose its key"};
  const IpAddress network = address->network(prefix);
  if (network != *address) {
    return {
        {},
        "it has bits beyond its length, write " + network.text() + "/" + std::to_string(prefix)};
  }
  return {IpRange{network, prefix}, {}};
}

}  // namespace sluice
