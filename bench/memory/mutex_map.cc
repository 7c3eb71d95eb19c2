#include "memory/mutex_map.h"

#include <algorithm>

#include "memory/filled_store.h"

namespace sluice::bench {

std::uint64_t MutexMap::decide(std::string_view key, Instant now) {
  Shard& shard = shards_[Hash()(key) % kShards];
  const std::lock_guard lock(shard.mutex);
  auto found = shard.buckets.find(key);
  if (found == shard.buckets.end()) found = shard.buckets.emplace(key, Bucket()).first;
  constexpr std::int64_t kSpanNs = kIntervalNs * kBurst;
  const std::int64_t arrival_ns = std::max(now, found->second.arrival_ns) + kIntervalNs;
  const std::int64_t left_ns = kSpanNs - (arrival_ns - now);
  if (left_ns < 0) return 0;
  found->second.arrival_ns = arrival_ns;
  return static_cast<std::uint64_t>(left_ns / kIntervalNs);
}

}  // namespace sluice::bench
