#include "service/access.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/hex.hpp>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "core/ascii.h"
#include "sluice/store.h"

namespace sluice {
namespace {

constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kTokenCharacters = 43;
constexpr std::size_t kMaxUserNameBytes = 64;
/// Counts wrong tokens by the client's address. If there are too many addresses, the store forgets
/// some, which may then send wrong tokens again.
constexpr const char* kStore = "memory:?max_bytes=1048576&full=allow";

const Identity kUnknown{.is_known = false, .roles = kNoRole};

// Who a client is that has sent no token.
Identity identify_in(const Access::Users& users, bool is_local, std::string_view certificate,
                     bool admits_strangers) {
  if (users.empty()) {
    if (!is_local && certificate.empty() && !admits_strangers) return kUnknown;
    const bool is_checked = !is_local && !certificate.empty();
    return {.is_known = true, .roles = is_checked ? Roles{kCheckRole} : kAllRoles};
  }
  for (const User& user : users) {
    if (!user.certificate.empty() && user.certificate == certificate) {
      return {.is_known = true, .roles = user.roles, .name = user.certificate};
    }
  }
  return kUnknown;
}

// The user with this token; `name` may be empty. Takes the same time however similar tokens are.
Identity find_token(const Access::Users& users, std::string_view name, std::string_view sha256) {
  // In Redis `AUTH x` is `AUTH default x`, which clients send that have a password alone.
  constexpr std::string_view kDefault = "default";
  if (name == kDefault && std::ranges::find(users, kDefault, &User::name) == users.end()) name = {};
  Identity found = kUnknown;
  for (const User& user : users) {
    const bool is_meant = name.empty() || user.name == name;
    if (user.token_sha256.empty() || user.token_sha256.size() != sha256.size() || !is_meant) {
      continue;
    }
    if (::CRYPTO_memcmp(user.token_sha256.data(), sha256.data(), sha256.size()) != 0) continue;
    found = {.is_known = true, .roles = user.roles, .name = user.name};
  }
  return found;
}

}  // namespace

bool is_user_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxUserNameBytes &&
         std::ranges::all_of(text, is_in_names);
}

std::string make_token() {
  std::array<unsigned char, kTokenBytes> bytes{};
  if (::RAND_bytes(bytes.data(), bytes.size()) != 1) {
    throw std::runtime_error("the system has no random bits");
  }
  // Base64 with one character of padding, and a zero after it.
  std::array<unsigned char, kTokenCharacters + 2> text{};
  ::EVP_EncodeBlock(text.data(), bytes.data(), kTokenBytes);
  std::string token(text.begin(), text.begin() + kTokenCharacters);
  std::ranges::replace(token, '+', '-');
  std::ranges::replace(token, '/', '_');
  return token;
}

std::string token_sha256(std::string_view token) {
  std::array<unsigned char, kTokenBytes> hash{};
  ::EVP_Digest(token.data(), token.size(), hash.data(), nullptr, ::EVP_sha256(), nullptr);
  std::string text;
  boost::algorithm::hex_lower(hash.begin(), hash.end(), std::back_inserter(text));
  return text;
}

Access::Access(Users users, bool admits_strangers)
    : admits_strangers_(admits_strangers),
      users_(std::make_shared<const Users>(std::move(users))),
      wrong_(open_store(kStore), Limit(kWrongTokens)) {}

Access::Login Access::log_in(std::string_view name, std::string_view token, std::string_view peer) {
  Login login{.identity = find_token(*users_.get(), name, token_sha256(token))};
  if (login.identity.is_known) {
    login.verdict = Verdict::kRight;
    return login;
  }
  wrong_tokens_.fetch_add(1, std::memory_order_relaxed);
  if (!wrong_.check(peer).allowed) login.verdict = Verdict::kTooManyWrong;
  return login;
}

ClientAccess::ClientAccess(Access& access, bool is_local, std::string_view certificate)
    : access_(&access), is_local_(is_local), certificate_(certificate) {
  log_out();
}

Access::Verdict ClientAccess::log_in(std::string_view name, std::string_view token,
                                     std::string_view peer) {
  const Access::Login login = access_->log_in(name, token, peer);
  if (login.verdict == Access::Verdict::kRight) {
    name_ = name;
    token_sha256_ = sluice::token_sha256(token);
    identity_ = login.identity;
  }
  return login.verdict;
}

void ClientAccess::log_out() {
  token_sha256_.clear();
  identify();
}

void ClientAccess::identify() {
  version_ = access_->users().version();  // First, so that a change meanwhile is found next time.
  const auto users = access_->users().get();
  has_users_ = !users->empty();
  identity_ = identify_in(*users, is_local_, certificate_, access_->admits_strangers());
  const Identity user = find_token(*users, name_, token_sha256_);
  if (user.is_known) identity_ = user;
}

}  // namespace sluice
