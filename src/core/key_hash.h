#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/hash_secret.h"

namespace sluice {

namespace internal {

inline constexpr std::size_t kShortKey = 16;

inline KeyHash hash_with(std::string_view key, const HashSecret& secret) {
  const XXH128_hash_t hash =
      XXH3_128bits_withSecret(key.data(), key.size(), secret.bytes.data(), secret.bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

KeyHash hash_long(std::string_view key, const HashSecret& secret);

// Separate and inlined, because the hash of a short key is only a few instructions.
[[gnu::flatten]] inline KeyHash hash_short(std::string_view key, const HashSecret& secret) {
  if (key.size() > kShortKey) __builtin_unreachable();
  return hash_with(key, secret);
}

}  // namespace internal

/// The hash of a key: XXH3 with 128 bits and a secret.
inline KeyHash hash_key(std::string_view key, const HashSecret& secret) {
  return key.size() <= internal::kShortKey ? internal::hash_short(key, secret)
                                           : internal::hash_long(key, secret);
}

}  // namespace sluice
