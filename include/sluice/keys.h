#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/export.h"

namespace sluice {

/// How ClientIp makes a key from a client's address.
struct ClientIpOptions {
  /// The proxies in front of this program, whose X-Forwarded-For is trusted: addresses
  /// ("10.1.2.3"), ranges ("10.0.0.0/8", "2001:db8::/32"), and "unix:" for a peer on a Unix socket.
  /// At most 1024. List only proxies: a host in one of these ranges can pretend to be any client.
  std::vector<std::string> trusted_proxies = {};
  /// The number of leading bits of an IPv4 address that make the key, 1 to 32: clients that agree
  /// in these bits share one key.
  int ipv4_prefix = 32;
  /// The same for an IPv6 address, 1 to 128. A typical IPv6 client owns a whole /64 and can use a
  /// new address for each request, so a key per address would not limit it.
  int ipv6_prefix = 64;
};

/// Makes a key from the IP address of a client that reaches this program directly or through
/// proxies:
///
///     const sluice::ClientIp client_ip({.trusted_proxies = {"10.0.0.0/8"}});
///     sluice::Decision decision = limiter.check(client_ip.key(peer, forwarded_for_lines));
///
/// Immutable, cheap to copy, thread-safe.
class SLUICE_EXPORT ClientIp {
 public:
  /// Throws std::invalid_argument, whose message names the invalid proxy or number. A range must
  /// not have bits beyond its length (10.0.0.1/8), and must not contain every address (0.0.0.0/0),
  /// with which every client could choose its key.
  explicit ClientIp(const ClientIpOptions& options = {});

  /// The key of the client that sent a request: "203.0.113.7", "2001:db8:0:7::/64". An address has
  /// the same key in every notation. An IPv4-mapped IPv6 address ("::ffff:203.0.113.7") counts as
  /// the IPv4 address; a port, brackets and a zone (fe80::1%eth0) are ignored.
  ///
  /// `peer` is the remote address of the connection, as text. `x_forwarded_for` has the value of
  /// each line of that header, in the order in which they arrived; pass all of them, since some
  /// proxies add a line of their own after the client's.
  ///
  /// If the peer is not a trusted proxy, it is the client; the header is ignored, since the client
  /// could have written anything. Otherwise the client is the rightmost address of the header that
  /// is not a trusted proxy: each proxy appends the address of its peer, and addresses further left
  /// may be forged. If all are trusted, the leftmost is the client. Empty items are skipped. An
  /// item that is no address ("unknown", a name, more than 64 bytes) ends the search, and so do 32
  /// items; the client is then the last address found, which may be a proxy's.
  ///
  /// If the peer is no IP address, the key is its first 128 bytes. A peer that begins with "unix:"
  /// can be trusted, as above; other peers without an address cannot.
  ///
  /// Other headers, such as Forwarded (RFC 7239), are not read: a proxy that writes one header may
  /// pass on the other unchanged, as the client wrote it.
  std::string key(std::string_view peer,
                  std::span<const std::string_view> x_forwarded_for = {}) const;

 private:
  struct Settings;
  std::shared_ptr<const Settings> settings_;
};

/// Makes keys from secrets that must not appear in a store, its backups and its logs: API tokens,
/// session ids, e-mail addresses, telephone numbers.
///
///     const sluice::KeyHasher hasher(pepper);
///     sluice::Decision decision = limiter.check(hasher.key(api_token));
///
/// A plain hash is not enough: there are so few telephone numbers that an attacker can hash and
/// compare all of them. So the hash is keyed with a pepper, a secret of the program that the store
/// never sees. All processes that share limits must use the same pepper; with another pepper every
/// key starts fresh.
///
/// Immutable, thread-safe.
class SLUICE_EXPORT KeyHasher {
 public:
  /// Throws std::invalid_argument if the pepper has less than 16 bytes. Use 32 random bytes
  /// ("openssl rand -hex 32") and protect them like a password.
  explicit KeyHasher(std::string_view pepper);

  /// The key of a secret: the first 128 bits of its HMAC-SHA-256, as 32 hexadecimal digits. A
  /// secret can be any bytes. The caller must normalize it first, for example the case of an e-mail
  /// address. Throws std::runtime_error if OpenSSL fails.
  std::string key(std::string_view secret) const;

 private:
  std::string pepper_;
};

}  // namespace sluice
