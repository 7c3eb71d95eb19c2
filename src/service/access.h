#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/limiter.h"

namespace sluice {

/// What a client may ask for; several are joined by |.
enum Role : std::uint8_t {
  kNoRole = 0,
  kCheckRole = 1,  ///< Decisions, and permits.
  kAdminRole = 2,  ///< To give units back, to charge, block and reset keys, and to see the limits.
  kMetricsRole = 4,  ///< The metrics.
};
using Roles = unsigned;
inline constexpr Roles kAllRoles = kCheckRole | kAdminRole | kMetricsRole;

/// A program that may use the server: it knows a token, or has a certificate.
struct User {
  /// Of 1 to 64 letters, digits and "_.-"; empty for one with a certificate.
  std::string name;
  /// The SHA-256 of its token, in 64 hexadecimal digits; empty for one with a certificate.
  std::string token_sha256;
  /// The subject of its certificate, as TlsSession::subject() writes it: "CN=gateway".
  std::string certificate;
  Roles roles = kNoRole;

  friend bool operator==(const User&, const User&) = default;
};

/// What is known of who a client is.
struct Identity {
  /// If not, the client must say who it is before anything else.
  bool is_known = true;
  Roles roles = kAllRoles;

  bool may(Roles needed) const { return (roles & needed) == needed; }
};

/// A new token: 256 random bits as 43 characters of URL-safe Base64. Throws std::runtime_error
/// where the system has no random bits.
std::string make_token();
/// The SHA-256 of a token, in hexadecimal digits.
std::string token_sha256(std::string_view token);

/// Knows the users. Thread-safe.
class Access {
 public:
  /// How many wrong tokens a peer may send.
  static constexpr const char* kWrongTokens = "token_bucket 10/1m";

  /// Without users, everyone may do everything whom the listeners let in, except for clients of a
  /// public address who need a certificate there: they have the role check.
  explicit Access(std::vector<User> users = {});

  bool has_users() const { return !users_.empty(); }

  /// What a client may do that has connected and not said who it is. `is_local`: over loopback or
  /// a Unix socket. `certificate`: the subject of its certificate, or empty.
  Identity identify(bool is_local, std::string_view certificate) const;

  /// What a token is good for.
  enum class Verdict : std::uint8_t { kRight, kWrong, kTooManyWrong };
  struct Login {
    Verdict verdict = Verdict::kWrong;
    Identity identity = {.is_known = false, .roles = kNoRole};
  };
  /// Compares the token with that of the user `name`; with those of all users, if `name` is empty.
  /// The time this takes does not depend on how alike tokens are. `peer`: the client's address, of
  /// which wrong tokens are limited: after kTooManyWrong its connection should be closed. The right
  /// token is accepted always, since other programs may share the address.
  Login log_in(std::string_view name, std::string_view token, std::string_view peer);

  /// The number of wrong tokens so far.
  std::uint64_t wrong_tokens() const { return wrong_tokens_.load(std::memory_order_relaxed); }

 private:
  const std::vector<User> users_;
  Limiter wrong_;
  std::atomic<std::uint64_t> wrong_tokens_ = 0;
};

}  // namespace sluice
