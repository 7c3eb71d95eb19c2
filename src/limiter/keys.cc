#include "sluice/keys.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/hex.hpp>
#include <cstddef>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/read_number.h"
#include "core/safe_text.h"
#include "limiter/ip_address.h"

namespace sluice {

/// All addresses that begin with the first `prefix` bits of `network`, whose other bits are clear.
struct IpRange {
  IpAddress network;
  int prefix = 0;

  /// An IPv4 address is never in a range of IPv6.
  bool contains(const IpAddress& address) const {
    return address.is_v4() == network.is_v4() && network_of(address, prefix) == network;
  }
};

namespace {

constexpr std::size_t kMaxTrustedProxies = 1024;
constexpr std::size_t kMaxItems = 32;
constexpr std::size_t kMaxItemBytes = 64;
constexpr std::size_t kMaxPeerBytes = 128;
constexpr std::size_t kMinPepperBytes = 16;
constexpr std::size_t kHashedKeyBytes = 16;
constexpr std::string_view kUnix = "unix:";
// Of ::ffff:0:0/96, the IPv4 addresses as IPv6 has them.
constexpr int kIpv4PrefixBits = 96;

[[noreturn]] void refuse_proxy(std::string_view text, const std::string& fault) {
  throw std::invalid_argument("\"" + printable(text, 64) + "\" is not a trusted proxy: " + fault);
}

// Reads ADDRESS or ADDRESS/BITS; ::ffff:10.0.0.0/104 is 10.0.0.0/8.
IpRange read_proxies(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view address_text = text.substr(0, slash);
  const std::optional<IpAddress> address = parse_ip_address(address_text);
  if (!address) refuse_proxy(text, "write an address, 10.1.2.3, or a range, 10.0.0.0/8");
  if (slash == std::string_view::npos) return {*address, bits_of(*address)};

  const bool mapped = address->is_v4() && address_text.find(':') != std::string_view::npos;
  const int most = mapped ? 128 : bits_of(*address);
  int written = 0;
  if (!read_number(text.substr(slash + 1), written) || written < 0 || written > most) {
    refuse_proxy(text, "the number after the slash must be from 1 to " + std::to_string(most));
  }
  const int prefix = mapped ? written - kIpv4PrefixBits : written;
  if (prefix <= 0) {
    refuse_proxy(text, "it holds every address, so that any client could choose its key");
  }
  const IpAddress network = network_of(*address, prefix);
  if (network != *address) {
    refuse_proxy(text, "it has bits beyond its length, write " + network.to_string() + "/" +
                           std::to_string(prefix));
  }
  return {network, prefix};
}

// Takes the last item off a line of a list, and the comma before it. The first item leaves nothing
// of the line. Looks for the comma as far as a valid item may reach: a longer text is one item.
std::string_view take_last_item(std::optional<std::string_view>& line) {
  const std::size_t begin = line->size() - std::min(line->size(), kMaxItemBytes + 1);
  const std::string_view end = line->substr(begin);
  const std::size_t comma = end.rfind(',');
  if (comma == std::string_view::npos) return *std::exchange(line, std::nullopt);
  const std::string_view item = end.substr(comma + 1);
  line->remove_suffix(item.size() + 1);
  return item;
}

void require_prefix(const std::string& name, int prefix, int most) {
  if (prefix >= 1 && prefix <= most) return;
  throw std::invalid_argument(name + " must be from 1 to " + std::to_string(most) + ", it is " +
                              std::to_string(prefix));
}

}  // namespace

struct ClientIp::Settings {
  std::vector<IpRange> trusted = {};
  bool trusts_unix = false;
  int ipv4_prefix = 0;
  int ipv6_prefix = 0;

  bool trusts(const IpAddress& address) const {
    return std::ranges::any_of(trusted, [&](const auto& range) { return range.contains(address); });
  }

  /// The client that a trusted proxy names in X-Forwarded-For, from right to left: the first
  /// address that is not trusted, or the last before an item that cannot be read, or a bound.
  /// Nothing if there is none. Looks at a bounded number of bytes, whatever the header's length.
  std::optional<IpAddress> client_in(std::span<const std::string_view> lines) const {
    std::optional<IpAddress> client;
    std::optional<std::string_view> line;  // What is left of the present one.
    for (std::size_t items = 0; items < kMaxItems && (line || !lines.empty()); ++items) {
      if (!line) {
        line = lines.back();
        lines = lines.first(lines.size() - 1);
      }
      const std::string_view item = take_last_item(line);
      if (item.size() > kMaxItemBytes) break;
      if (item.find_first_not_of(" \t") == std::string_view::npos) continue;
      const std::optional<IpAddress> hop = parse_ip_endpoint(item);
      if (!hop) break;
      client = hop;
      if (!trusts(*hop)) break;
    }
    return client;
  }

  std::string key(const IpAddress& address) const {
    const int prefix = address.is_v4() ? ipv4_prefix : ipv6_prefix;
    std::string text = network_of(address, prefix).to_string();
    if (prefix < bits_of(address)) text.append("/").append(std::to_string(prefix));
    return text;
  }
};

ClientIp::ClientIp(const ClientIpOptions& options) {
  if (options.trusted_proxies.size() > kMaxTrustedProxies) {
    throw std::invalid_argument("there are " + std::to_string(options.trusted_proxies.size()) +
                                " trusted proxies, at most " + std::to_string(kMaxTrustedProxies));
  }
  require_prefix("ipv4_prefix", options.ipv4_prefix, 32);
  require_prefix("ipv6_prefix", options.ipv6_prefix, 128);
  Settings settings{.ipv4_prefix = options.ipv4_prefix, .ipv6_prefix = options.ipv6_prefix};
  for (const std::string& proxy : options.trusted_proxies) {
    if (proxy == kUnix) {
      settings.trusts_unix = true;
    } else {
      settings.trusted.push_back(read_proxies(proxy));
    }
  }
  settings_ = std::make_shared<const Settings>(std::move(settings));
}

std::string ClientIp::key(std::string_view peer,
                          std::span<const std::string_view> x_forwarded_for) const {
  std::optional<IpAddress> client = parse_ip_endpoint(peer);
  const bool is_trusted =
      client ? settings_->trusts(*client) : settings_->trusts_unix && peer.starts_with(kUnix);
  if (is_trusted) {
    if (const auto named = settings_->client_in(x_forwarded_for)) client = named;
  }
  return client ? settings_->key(*client) : std::string(peer.substr(0, kMaxPeerBytes));
}

KeyHasher::KeyHasher(std::string_view pepper) : pepper_(pepper) {
  if (pepper.size() < kMinPepperBytes) {
    throw std::invalid_argument("the pepper has " + std::to_string(pepper.size()) +
                                " bytes, it needs at least " + std::to_string(kMinPepperBytes));
  }
}

std::string KeyHasher::key(std::string_view secret) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  if (::HMAC(EVP_sha256(), pepper_.data(), static_cast<int>(pepper_.size()),
             reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), hash.data(),
             nullptr) == nullptr) {
    throw std::runtime_error("OpenSSL could not compute an HMAC with SHA-256");
  }
  std::string text;
  boost::algorithm::hex_lower(hash.begin(), hash.begin() + kHashedKeyBytes,
                              std::back_inserter(text));
  return text;
}

}  // namespace sluice
