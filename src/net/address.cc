#include "net/address.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "net/endpoint.h"

namespace sluice {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

ParsedAddress refuse(std::string_view text, const std::string& what) {
  std::string sentence = "\"";
  sentence.append(text).append("\" is not an address to listen on: ").append(what);
  return {std::nullopt, std::move(sentence)};
}

ParsedAddress parse_unix(std::string_view text) {
  const std::string_view path = text.substr(kUnixPrefix.size());
  if (path.empty()) return refuse(text, "there is no path after unix:");
  if (path.size() > kMaxUnixPathBytes) {
    return refuse(text, "the path has " + std::to_string(path.size()) + " bytes, a socket's has " +
                            std::to_string(kMaxUnixPathBytes) + " at most");
  }
  if (path.find('\0') != std::string_view::npos) return refuse(text, "the path holds a zero byte");
  // Two ways to write a path are one address; but ".." may lead elsewhere, from a folder that is a
  // link.
  const std::filesystem::path written(path);
  const bool goes_up = std::ranges::find(written, "..") != written.end();
  return {Address{Address::Family::kUnix, goes_up ? written : written.lexically_normal(), 0}, {}};
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stopped != end || text.empty()) return std::nullopt;
  return port;
}

}  // namespace

bool Address::is_local() const {
  return family == Family::kUnix || boost::asio::ip::make_address(host).is_loopback();
}

std::string Address::text() const {
  if (family == Family::kUnix) return std::string(kUnixPrefix) + host;
  const std::string name = family == Family::kIpv6 ? "[" + host + "]" : host;
  return name + ":" + std::to_string(port);
}

ParsedAddress parse_address(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) return parse_unix(text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return refuse(text, "write ADDRESS:PORT, [IPV6-ADDRESS]:PORT or unix:PATH");
  }
  const std::optional<std::uint16_t> port = parse_port(text.substr(colon + 1));
  if (!port) return refuse(text, "the port must be a number from 0 to 65535");
  std::string host(text.substr(0, colon));
  if (host.find('\0') != std::string::npos) return refuse(text, "the address holds a zero byte");
  if (host == "localhost") host = "127.0.0.1";
  const bool in_brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  boost::system::error_code not_numeric;
  const auto numeric = boost::asio::ip::make_address(host, not_numeric);
  const bool is_ipv6 = numeric.is_v6();
  if (in_brackets && !is_ipv6) return refuse(text, "no IPv6 address stands in the brackets");
  if (is_ipv6 && !in_brackets) return refuse(text, "an IPv6 address stands in brackets");
  if (not_numeric) return refuse(text, "the address must be numeric, like 127.0.0.1 or [::1]");
  const auto family = is_ipv6 ? Address::Family::kIpv6 : Address::Family::kIpv4;
  return {Address{family, numeric.to_string(), *port}, {}};
}

}  // namespace sluice
