#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "service/current.h"
#include "sluice/limiter.h"

namespace sluice {

/// Whether a user may have this name.
bool is_user_name(std::string_view text);
inline constexpr std::string_view kUserNames =
    "a user's name has 1 to 64 characters of a-z A-Z 0-9 _ . -";

/// What a client may ask for. Several roles are joined by |.
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
  /// See is_user_name(); empty for a user with a certificate.
  std::string name;
  /// The SHA-256 of its token, in 64 hexadecimal digits; empty for a user with a certificate.
  std::string token_sha256;
  /// The subject of its certificate, as TlsSession::subject() writes it: "CN=gateway".
  std::string certificate;
  Roles roles = kNoRole;

  friend bool operator==(const User&, const User&) = default;
};

/// Who a client is, as far as the server knows.
struct Identity {
  /// If false, the client must send its token before anything else.
  bool is_known = true;
  Roles roles = kAllRoles;
  /// The user's name, or the subject of its certificate; empty if the client is not a user.
  std::string name = {};

  bool may(Roles needed) const { return (roles & needed) == needed; }
};

/// A new token: 256 random bits as 43 characters of URL-safe Base64. Throws std::runtime_error
/// where the system has no random bits.
std::string make_token();
/// The SHA-256 of a token, in hexadecimal digits.
std::string token_sha256(std::string_view token);

/// Keeps the users, which a reload may replace. Thread-safe.
class Access {
 public:
  /// How many wrong tokens may come from one address.
  static constexpr const char* kWrongTokens = "token_bucket 10/1m";

  /// Without users, a client of this machine may do everything. A client of another machine has the
  /// role check if it has a certificate; without one it may do everything if `admits_strangers`,
  /// otherwise nothing. (It can be connected nevertheless: there were users when it connected.)
  explicit Access(std::vector<User> users = {}, bool admits_strangers = true);

  using Users = std::vector<User>;
  /// The present users, which may be replaced.
  Current<Users>& users() { return users_; }
  const Current<Users>& users() const { return users_; }
  bool has_users() const { return !users_.get()->empty(); }

  bool admits_strangers() const { return admits_strangers_; }

  /// Whether a token is right.
  enum class Verdict : std::uint8_t { kRight, kWrong, kTooManyWrong };
  struct Login {
    Verdict verdict = Verdict::kWrong;
    Identity identity = {.is_known = false, .roles = kNoRole};
  };
  /// Compares the token with that of the user `name`, or with those of all users if `name` is
  /// empty, or "default" and no user has that name. Takes the same time however similar tokens are.
  /// `peer`: the client's address. Wrong tokens from one address are limited: after kTooManyWrong
  /// the caller should close the connection. The right token is always accepted, since other
  /// programs may share the address.
  Login log_in(std::string_view name, std::string_view token, std::string_view peer);

  /// The number of wrong tokens so far.
  std::uint64_t wrong_tokens() const { return wrong_tokens_.load(std::memory_order_relaxed); }

 private:
  const bool admits_strangers_;
  Current<Users> users_;
  Limiter wrong_;
  std::atomic<std::uint64_t> wrong_tokens_ = 0;
};

/// Who the client of a connection is: by its address and certificate, or by a token that it has
/// sent since. Not thread-safe.
class ClientAccess {
 public:
  /// `access` outlives this. `is_local`: the client has connected over loopback or a Unix socket.
  /// `certificate`: the subject of its certificate, or empty.
  ClientAccess(Access& access, bool is_local, std::string_view certificate);

  /// If the users have been replaced since the last call, identifies the client again: by its token
  /// if that is still right, otherwise as if it had sent none. Returns whether it did so.
  bool update() {
    if (access_->users().version() == version_) return false;
    identify();
    return true;
  }
  /// The identity as of the last update().
  const Identity& identity() const { return identity_; }
  bool has_users() const { return has_users_; }

  /// As Access::log_in(). If the token is right, the client is that user from then on.
  Access::Verdict log_in(std::string_view name, std::string_view token, std::string_view peer);
  /// Forgets the token: the client is again who it was when it connected.
  void log_out();

 private:
  void identify();

  Access* access_;
  bool is_local_;
  std::string certificate_;
  // The name and token with which the client has logged in, or empty.
  std::string name_;
  std::string token_sha256_;
  std::uint64_t version_ = 0;
  bool has_users_ = false;
  Identity identity_;
};

}  // namespace sluice
