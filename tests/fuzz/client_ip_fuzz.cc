// The peer is on the first line, X-Forwarded-For on the others. For any input there is one key, and
// only a trusted proxy can change it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "limiter/ip_address.h"
#include "sluice/keys.h"

namespace {

using namespace sluice;

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// The key is the text of a network and names it again.
void check_key(const ClientIp& client_ip, const std::string& key) {
  const std::string address = key.substr(0, key.find('/'));
  check(parse_ip_address(address).has_value() && client_ip.key(address) == key);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ClientIp direct;
  static const ClientIp proxied({.trusted_proxies = {"10.0.0.0/8", "2001:db8::/32", "unix:"}});
  const auto lines = split({reinterpret_cast<const char*>(data), size});
  const std::string_view peer = lines.front();
  const std::vector<std::string_view> header(lines.begin() + 1, lines.end());

  const bool is_address = parse_ip_endpoint(peer).has_value();
  check(direct.key(peer, header) == direct.key(peer));
  if (is_address) check_key(direct, direct.key(peer));
  if (!is_address) check(direct.key(peer) == peer.substr(0, 128));

  const std::string key = proxied.key(peer, header);
  if (is_address || key != peer.substr(0, 128)) check_key(proxied, key);

  // An earlier line changes nothing, unless all later ones name proxies.
  std::vector<std::string_view> longer(header);
  longer.insert(longer.begin(), "6.6.6.6");
  const std::string longer_key = proxied.key(peer, longer);
  check(longer_key == key || longer_key == "6.6.6.6");

  // If a trusted proxy appends its peer's address, that address decides.
  longer.push_back("6.6.6.7, 10.1.1.1");
  check(proxied.key("10.0.0.1", longer) == "6.6.6.7");
  return 0;
}
