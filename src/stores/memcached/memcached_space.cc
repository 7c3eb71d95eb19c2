#include "stores/memcached/memcached_space.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>

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

void append_hash(std::string& output, std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
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
