#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// What stands for a key's text: 128 bits, each as good as any other. See hash_key().
struct KeyHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const KeyHash&) const = default;
};

/// What keys are hashed under: who does not know it cannot choose keys whose hashes are alike.
struct HashSecret {
  std::array<unsigned char, 192> bytes;

  /// Another one each time. Throws StoreError where the system has no random bytes.
  static HashSecret random();
  /// The same in every run.
  static HashSecret fixed();
};

}  // namespace sluice
