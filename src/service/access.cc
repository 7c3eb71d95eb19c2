#include "service/access.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "sluice/store.h"

namespace sluice {
namespace {

constexpr std::size_t kTokenBytes = 32;
/// A peer's address that is forgotten, since there are too many, may send wrong tokens again.
constexpr const char* kStore = "memory:?max_bytes=1048576&full=allow";

}  // namespace

std::string make_token() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  constexpr unsigned kDigitBits = 6;
  std::array<unsigned char, kTokenBytes> bytes{};
  if (::RAND_bytes(bytes.data(), bytes.size()) != 1) {
    throw std::runtime_error("the system has no random bits");
  }
  std::string token;
  unsigned pending = 0;
  unsigned bits = 0;
  for (const unsigned char byte : bytes) {
    pending = pending << 8U | byte;
    for (bits += 8; bits >= kDigitBits; bits -= kDigitBits) {
      token += kDigits[pending >> (bits - kDigitBits) & 63U];
    }
  }
  token += kDigits[pending << (kDigitBits - bits) & 63U];
  return token;
}

std::string token_sha256(std::string_view token) {
  std::array<unsigned char, kTokenBytes> hash{};
  ::EVP_Digest(token.data(), token.size(), hash.data(), nullptr, ::EVP_sha256(), nullptr);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : hash) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

Access::Access(std::vector<User> users)
    : users_(std::move(users)), wrong_(open_store(kStore), Limit(kWrongTokens)) {}

Identity Access::identify(bool is_local, std::string_view certificate) const {
  if (users_.empty()) {
    const bool is_checked = !is_local && !certificate.empty();
    return {.is_known = true, .roles = is_checked ? Roles{kCheckRole} : kAllRoles};
  }
  for (const User& user : users_) {
    if (!user.certificate.empty() && user.certificate == certificate) {
      return {.is_known = true, .roles = user.roles};
    }
  }
  return {.is_known = false, .roles = kNoRole};
}

Access::Login Access::log_in(std::string_view name, std::string_view token, std::string_view peer) {
  const std::string hash = token_sha256(token);
  Login login;
  for (const User& user : users_) {
    const bool is_meant = name.empty() || user.name == name;
    if (user.token_sha256.size() != hash.size() || !is_meant) continue;
    if (::CRYPTO_memcmp(user.token_sha256.data(), hash.data(), hash.size()) != 0) continue;
    login = {.verdict = Verdict::kRight, .identity = {.is_known = true, .roles = user.roles}};
  }
  if (login.verdict == Verdict::kRight) return login;
  wrong_tokens_.fetch_add(1, std::memory_order_relaxed);
  if (!wrong_.check(peer).allowed) login.verdict = Verdict::kTooManyWrong;
  return login;
}

}  // namespace sluice
