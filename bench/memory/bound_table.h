#pragma once

// Inlined, as in the store: with a call, the bound would be easier to meet.
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/arithmetic.h"
#include "memory/resident.h"

namespace sluice::bench {

/// The lower bound for any table in memory: it must hash the key and load one 64-byte line.
class BoundTable {
 public:
  /// As large as the table that it is compared with, and in huge pages if that is mostly in them.
  explicit BoundTable(const Resident& like);
  ~BoundTable();
  BoundTable(const BoundTable&) = delete;
  BoundTable& operator=(const BoundTable&) = delete;

  /// A word of the key's line, below 2^63.
  std::uint64_t load(std::string_view key) const {
    const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
    const Uint128 place = Uint128{hash.low64} * count_;
    return lines_[static_cast<std::size_t>(place >> 64)].words[hash.high64 & 7];
  }

 private:
  struct alignas(64) Line {
    std::uint64_t words[8];
  };

  Line* lines_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace sluice::bench
