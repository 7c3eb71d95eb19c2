#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/export.h"

namespace sluice {

/// How a client's address becomes a key.
struct ClientIpOptions {
  /// The proxies that stand before this program, whose X-Forwarded-For is believed: addresses
  /// ("10.1.2.3"), ranges ("10.0.0.0/8", "2001:db8::/32"), and "unix:" for a peer on a Unix socket.
  /// At most 1024. Name the proxies only: whoever is in a range can pretend to be any client.
  std::vector<std::string> trusted_proxies = {};
  /// Clients whose addresses agree in so many of their first bits share one key: of an IPv4 address
  /// 1 to 32, of an IPv6 address 1 to 128. The usual client of IPv6 owns a whole /64 and may take
  /// each request's address from it, so that a key per address would limit nobody.
  int ipv4_prefix = 32;
  /// As ipv4_prefix, of an IPv6 address.
  int ipv6_prefix = 64;
};

/// The key of a client by its IP address, for one that reaches this program directly or through
/// proxies:
///
///     const sluice::ClientIp client_ip({.trusted_proxies = {"10.0.0.0/8"}});
///     sluice::Decision decision = limiter.check(client_ip.key(peer, forwarded_for_lines));
///
/// A value: immutable, cheap to copy. Thread-safe.
class SLUICE_EXPORT ClientIp {
 public:
  /// Throws std::invalid_argument, whose sentence names the proxy or the number that is wrong. A
  /// range must not have bits beyond its length (10.0.0.1/8), nor hold every address (0.0.0.0/0):
  /// then every client could choose its key.
  explicit ClientIp(const ClientIpOptions& options = {});

  /// The key of whoever sent a request: "203.0.113.7", "2001:db8:0:7::/64". One address has one
  /// key, however it is written; an IPv4 address within IPv6 ("::ffff:203.0.113.7") is the IPv4
  /// address; a port, brackets and a zone (fe80::1%eth0) make no difference.
  ///
  /// `peer` is the other end of the connection, as text. `x_forwarded_for` has the value of each
  /// line of that header in the order they came in; give all of them, for some proxies add a line
  /// of their own after the client's.
  ///
  /// If the peer is not a trusted proxy, it is the client, and the header is not read: it says what
  /// the client likes. Else the client is the rightmost address of the header that is no trusted
  /// proxy, since each proxy adds on the right whom it heard, and what stands further left may be
  /// made up. Where there is none, the leftmost is the client. Empty items are passed over; one
  /// that is no address ("unknown", a name, more than 64 bytes) ends the search, as do 32 items:
  /// then the client is the address found last, a proxy's perhaps.
  ///
  /// A peer that is no IP address is its own key: its first 128 bytes. One that begins with "unix:"
  /// may be trusted, as above; nothing else that is no address is.
  ///
  /// Other headers are never asked, RFC 7239's Forwarded among them: where proxies write one and
  /// pass another on, whoever believes both believes the client.
  std::string key(std::string_view peer,
                  std::span<const std::string_view> x_forwarded_for = {}) const;

 private:
  struct Settings;
  std::shared_ptr<const Settings> settings_;
};

/// Keys of what must not be found in a store, nor in its backups and logs: API tokens, session ids,
/// e-mail addresses, telephone numbers.
///
///     const sluice::KeyHasher hasher(pepper);
///     sluice::Decision decision = limiter.check(hasher.key(api_token));
///
/// A plain hash would not do: there are so few telephone numbers that all of them can be hashed and
/// compared. So the hash is keyed with the pepper, a secret of the program that the store never
/// sees. All processes that share limits share the pepper; under another one every key starts
/// fresh.
///
/// A value: immutable. Thread-safe.
class SLUICE_EXPORT KeyHasher {
 public:
  /// Throws std::invalid_argument for a pepper of less than 16 bytes. A good one has 32 random ones
  /// ("openssl rand -hex 32") and is kept like a password.
  explicit KeyHasher(std::string_view pepper);

  /// The first 128 bits of HMAC-SHA-256 as 32 hexadecimal digits. A secret is any bytes: what
  /// should count as one, upper and lower case of an e-mail address for example, the caller makes
  /// one before. Throws std::runtime_error where OpenSSL refuses, std::bad_alloc.
  std::string key(std::string_view secret) const;

 private:
  std::string pepper_;
};

}  // namespace sluice
