#include "stores/memcached/memcached_space.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/hex.hpp>
#include <cassert>
#include <iterator>

namespace sluice::memcached {
namespace {

constexpr std::size_t kHashBytes = 16;

bool is_plain(char c) {
  return c > ' ' && c <= '~';
}

std::string escaped(std::string_view space) {
  std::string text;
  for (const char c : space) {
    if (is_plain(c) && c != ':' && c != '%') {
      text += c;
    } else {
      text += '%';
      boost::algorithm::hex_lower(&c, &c + 1, std::back_inserter(text));
    }
  }
  return text;
}

void append_hash(std::string& output, std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  boost::algorithm::hex_lower(hash.begin(), hash.begin() + kHashBytes, std::back_inserter(output));
}

}  // namespace

bool is_prefix(std::string_view text) {
  return !text.empty() && text.size() <= kMaxPrefixBytes &&
         std::ranges::all_of(text, [](char c) { return is_plain(c) && c != ':'; });
}

MemcachedSpace::MemcachedSpace(std::string_view prefix, const LimitDefinition& limit)
    : prefix_(prefix), begin_(prefix_ + ":" + escaped(limit.space) + ":"), parts_(limit.parts) {
  assert(is_prefix(prefix.substr(0, kMaxPrefixBytes)) && prefix.size() <= kMaxPrefixBytes + 32);
}

void MemcachedSpace::name_of(std::string_view key, std::string& name) const {
  name.assign(begin_).append(key);
  if (name.size() <= kMaxKeyBytes && std::ranges::all_of(key, is_plain)) return;
  std::string hashed = prefix_ + "::";
  append_hash(hashed, name);
  name = std::move(hashed);
}

}  // namespace sluice::memcached
