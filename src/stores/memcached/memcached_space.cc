#include "stores/memcached/memcached_space.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace sluice::memcached {
namespace {

constexpr std::size_t kHashBytes = 16;

bool is_plain(char c) {
  return c > ' ' && c <= '~';
}

void append_hex(std::string& output, unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  output += kDigits[byte >> 4];
  output += kDigits[byte & 15];
}

std::string escaped(std::string_view space) {
  std::string text;
  for (const char c : space) {
    if (is_plain(c) && c != ':' && c != '%') {
      text += c;
    } else {
      text += '%';
      append_hex(text, static_cast<unsigned char>(c));
    }
  }
  return text;
}

// Looked up once: the library would search for it by name at each use.
const EVP_MD* sha256() {
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

void append_hash(std::string& output, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned int bytes = 0;
  if (EVP_Digest(text.data(), text.size(), hash.data(), &bytes, sha256(), nullptr) != 1 ||
      bytes < kHashBytes) {
    std::abort();  // Only for want of memory.
  }
  for (std::size_t i = 0; i < kHashBytes; ++i) append_hex(output, hash[i]);
}

}  // namespace

bool is_prefix(std::string_view text) {
  return !text.empty() && text.size() <= kMaxPrefixBytes &&
         std::ranges::all_of(text, [](char c) { return is_plain(c) && c != ':'; });
}

MemcachedSpace::MemcachedSpace(std::string_view prefix, const LimitDefinition& limit)
    : prefix_(prefix), begin_(prefix_ + ":" + escaped(limit.space) + ":"), parts_(limit.parts) {}

void MemcachedSpace::name_of(std::string_view key, std::string& name) const {
  name.assign(begin_).append(key);
  if (name.size() <= kMaxKeyBytes && std::ranges::all_of(key, is_plain)) return;
  std::string hashed = prefix_ + "::";
  append_hash(hashed, name);
  name = std::move(hashed);
}

}  // namespace sluice::memcached
