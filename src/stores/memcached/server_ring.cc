#include "stores/memcached/server_ring.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memcached {

ServerRing::ServerRing(const std::vector<std::string>& servers) {
  for (const auto& server : servers) seeds_.push_back(XXH3_64bits(server.data(), server.size()));
}

std::size_t ServerRing::server_of(std::string_view key) const {
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

}  // namespace sluice::memcached
