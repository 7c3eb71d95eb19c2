#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "service/current.h"
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
  /// Of a user: its name, or the subject of its certificate.
  std::string name = {};

  bool may(Roles needed) const { return (roles & needed) == needed; }
};

/// A new token: 256 random bits as 43 characters of URL-safe Base64. Throws std::runtime_error
/// where the system has no random bits.
std::string make_token();
/// The SHA-256 of a token, in hexadecimal digits.
std::string token_sha256(std::string_view token);

/// Knows the users, who may be replaced. Thread-safe.
class Access {
 public:
  /// How many wrong tokens a peer may send.
  static constexpr const char* kWrongTokens = "token_bucket 10/1m";

  /// Without users, a client of this machine may do everything. A client of another machine has the
  /// role check if it has a certificate; without one it may do everything if `admits_strangers`,
  /// otherwise nothing: its connection was accepted while there were users, and outlives them.
  explicit Access(std::vector<User> users = {}, bool admits_strangers = true);

  using Users = std::vector<User>;
  /// The users of this time. They are replaced by any others.
  Current<Users>& users() { return users_; }
  const Current<Users>& users() const { return users_; }
  bool has_users() const { return !users_.get()->empty(); }

  bool admits_strangers() const { return admits_strangers_; }

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
  const bool admits_strangers_;
  Current<Users> users_;
  Limiter wrong_;
  std::atomic<std::uint64_t> wrong_tokens_ = 0;
};

/// Who the client of a connection is: as it was known when it connected, or by a token since. Not
/// thread-safe.
class ClientAccess {
 public:
  /// `access` outlives this; the others are as for Access::identify().
  ClientAccess(Access& access, bool is_local, std::string_view certificate);

  /// Identifies the client again if the users have been replaced since: by the token that it has
  /// logged in with if that is still right, otherwise as Access::identify() does.
  /// Returns whether it did.
  bool update() {
    if (access_->users().version() == version_) return false;
    identify();
    return true;
  }
  /// By the users of the last update().
  const Identity& identity() const { return identity_; }
  bool has_users() const { return has_users_; }

  /// As Access::log_in(). By the right token the client becomes that user.
  Access::Verdict log_in(std::string_view name, std::string_view token, std::string_view peer);
  /// It is who it was when it connected.
  void log_out();

 private:
  void identify();

  Access* access_;
  bool is_local_;
  std::string certificate_;
  // By which it has logged in; or empty.
  std::string name_;
  std::string token_sha256_;
  std::uint64_t version_ = 0;
  bool has_users_ = false;
  Identity identity_;
};

}  // namespace sluice
