#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// The hash of a key: 128 uniformly distributed bits. See hash_key().
struct KeyHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const KeyHash&) const = default;
};

/// The secret of the hash function. Without it, an attacker cannot choose keys whose hashes
/// collide.
struct HashSecret {
  std::array<unsigned char, 192> bytes;

  /// A random secret. Throws StoreError if the system has no random bytes.
  static HashSecret random();
  /// The same in every run.
  static HashSecret fixed();
};

}  // namespace sluice
