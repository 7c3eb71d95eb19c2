#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "net/endpoint.h"

namespace sluice::memcached {

/// Chooses which of several servers has a key: the same one in every process with the same servers,
/// in any order. Rendezvous hashing: each server draws a number for the key and the largest wins,
/// so that a server added to n - 1 others takes 1/n of the keys from them, and one removed leaves
/// the others' keys where they are.
class ServerRing {
 public:
  /// REQUIRES: at least one server; no two have the same text().
  explicit ServerRing(const std::vector<Endpoint>& servers) {
    assert(!servers.empty());
    for (const auto& server : servers) {
      const std::string name = server.text();
      const std::uint64_t seed = XXH3_64bits(name.data(), name.size());
      assert(std::ranges::find(seeds_, seed) == seeds_.end());
      seeds_.push_back(seed);
    }
  }

  /// The index of the key's server.
  std::size_t server_of(std::string_view key) const {
    if (seeds_.size() == 1) return 0;
    std::size_t winner = 0;
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < seeds_.size(); ++i) {
      const std::uint64_t drawn = XXH3_64bits_withSeed(key.data(), key.size(), seeds_[i]);
      if (drawn >= most) {
        most = drawn;
        winner = i;
      }
    }
    return winner;
  }

 private:
  std::vector<std::uint64_t> seeds_;
};

}  // namespace sluice::memcached
