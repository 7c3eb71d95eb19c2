#include "net/address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <charconv>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::size_t kMaxUnixPathBytes = sizeof(sockaddr_un::sun_path) - 1;

ParsedAddress fault(std::string_view text, const std::string& what) {
  std::string sentence = "\"";
  sentence.append(text).append("\" is not an address to listen on: ").append(what);
  return {std::nullopt, std::move(sentence)};
}

ParsedAddress parse_unix(std::string_view text) {
  const std::string_view path = text.substr(kUnixPrefix.size());
  if (path.empty()) return fault(text, "there is no path after unix:");
  if (path.size() > kMaxUnixPathBytes) {
    return fault(text, "the path has " + std::to_string(path.size()) + " bytes, a socket's has " +
                           std::to_string(kMaxUnixPathBytes) + " at most");
  }
  if (path.find('\0') != std::string_view::npos) return fault(text, "the path holds a zero byte");
  return {Address{Address::Family::kUnix, std::string(path), 0}, {}};
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stopped != end || text.empty()) return std::nullopt;
  return port;
}

bool is_numeric(int family, const std::string& host) {
  in6_addr binary{};
  return ::inet_pton(family, host.c_str(), &binary) == 1;
}

}  // namespace

bool Address::is_local() const {
  switch (family) {
    case Family::kUnix:
      return true;
    case Family::kIpv4:
      return host.starts_with("127.");
    case Family::kIpv6: {
      in6_addr binary{};
      return ::inet_pton(AF_INET6, host.c_str(), &binary) == 1 && IN6_IS_ADDR_LOOPBACK(&binary);
    }
  }
  return false;
}

std::string Address::text() const {
  switch (family) {
    case Family::kUnix:
      return std::string(kUnixPrefix) + host;
    case Family::kIpv4:
      return host + ":" + std::to_string(port);
    case Family::kIpv6:
      return std::string("[").append(host).append("]:").append(std::to_string(port));
  }
  return host;
}

ParsedAddress parse_address(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) return parse_unix(text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return fault(text, "write ADDRESS:PORT, [IPV6-ADDRESS]:PORT or unix:PATH");
  }
  const std::optional<std::uint16_t> port = parse_port(text.substr(colon + 1));
  if (!port) return fault(text, "the port must be a number from 0 to 65535");
  std::string host(text.substr(0, colon));
  if (host.find('\0') != std::string::npos) return fault(text, "the address holds a zero byte");
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (!is_numeric(AF_INET6, host)) return fault(text, "no IPv6 address stands in the brackets");
    return {Address{Address::Family::kIpv6, host, *port}, {}};
  }
  if (is_numeric(AF_INET6, host)) return fault(text, "an IPv6 address stands in brackets");
  if (!is_numeric(AF_INET, host)) {
    return fault(text, "the address must be numeric, like 127.0.0.1 or [::1]");
  }
  return {Address{Address::Family::kIpv4, host, *port}, {}};
}

}  // namespace sluice
