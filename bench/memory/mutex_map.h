#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/instant.h"

namespace sluice::bench {

/// The simple solution without a library: token buckets in hash maps of the standard library, with
/// 64 mutexes. Thread-safe.
class MutexMap {
 public:
  /// Takes one unit of kBenchLimit. Returns the remaining units.
  std::uint64_t decide(std::string_view key, Instant now);

 private:
  /// For looking up a string_view without making a string.
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct Bucket {
    Instant arrival_ns = 0;
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    std::unordered_map<std::string, Bucket, Hash, std::equal_to<>> buckets;
  };

  static constexpr std::size_t kShards = 64;
  std::array<Shard, kShards> shards_;
};

}  // namespace sluice::bench
