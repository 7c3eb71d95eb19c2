#pragma once

#include <openssl/sha.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/hex.hpp>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "stores/memcached/meta_protocol.h"

namespace sluice::memcached {

inline constexpr std::size_t kMaxPrefixBytes = 64;

/// Whether the text can be a prefix: 1 to 64 characters from '!' to '~' without ':', which ends it.
inline bool is_prefix(std::string_view text) {
  return !text.empty() && text.size() <= kMaxPrefixBytes &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~' && c != ':'; });
}

/// The item keys of one limit: `prefix:space:key`, where bytes of the space that would separate or
/// are not allowed in a key are written as %xx. If that is too long, or the key has a blank, a
/// control character or a byte above 126, the item's key is `prefix::` and 128 bits of SHA-256 in
/// hex. No space is empty, so a readable item key never equals such a one.
///
/// Immutable: safe to share between threads.
class MemcachedSpace final : public Space {
 public:
  /// REQUIRES: is_prefix(prefix), or that and up to 32 more of its characters.
  MemcachedSpace(std::string_view prefix, const LimitDefinition& limit)
      : prefix_(prefix), begin_(prefix_ + ":" + escaped(limit.space) + ":"), parts_(limit.parts) {
    const std::string kind = state_kind(parts_);
    kind_ = XXH3_64bits(kind.data(), kind.size());
    assert(is_prefix(prefix.substr(0, kMaxPrefixBytes)) && prefix.size() <= kMaxPrefixBytes + 32);
  }

  /// Sets `name` to the item's key.
  void name_of(std::string_view key, std::string& name) const {
    name.assign(begin_).append(key);
    if (name.size() <= kMaxKeyBytes && std::ranges::all_of(key, is_plain)) return;
    constexpr std::size_t kHashBytes = 16;
    std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
    SHA256(reinterpret_cast<const unsigned char*>(name.data()), name.size(), hash.data());
    name = prefix_ + "::";
    boost::algorithm::hex_lower(hash.begin(), hash.begin() + kHashBytes, std::back_inserter(name));
  }

  const std::vector<AnyPart>& parts() const { return parts_; }
  /// Equal for spaces whose keys keep each other's states: see keeps_state().
  std::uint64_t kind() const { return kind_; }

 private:
  static bool is_plain(char c) { return c > ' ' && c <= '~'; }

  static std::string escaped(std::string_view space) {
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

  std::string prefix_;
  std::string begin_;  // What all names begin with.
  std::vector<AnyPart> parts_;
  std::uint64_t kind_;
};

}  // namespace sluice::memcached
