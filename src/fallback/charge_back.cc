#include "fallback/charge_back.h"

#include <algorithm>
#include <utility>

#include "core/arithmetic.h"

namespace sluice {

std::int64_t ChargeBack::add(const KeyHash& hash, Key key, Instant now, Instant fresh_at) {
  if (key.name.size() > kMaxKeyBytes) return key.units;
  const std::shared_ptr<Space> space = key.space.lock();
  if (space == nullptr) return key.units;
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  const Id id{.space = space.get(), .hash = hash};
  auto entry = shard.entries.find(id);
  if (entry == shard.entries.end()) {
    if (!make_room(shard, now)) return key.units;
    shard.entries.emplace(id, Entry{.key = std::move(key), .fresh_at = fresh_at});
    size_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  Key& sum = entry->second.key;
  // The space at this address may be a new one, or the key may have become fresh meanwhile.
  const bool is_over = entry->second.fresh_at <= now || sum.space.expired();
  const std::int64_t before = is_over ? 0 : std::min(sum.units, kMaxInt64 - key.units);
  sum.units = before + key.units;
  sum.space = std::move(key.space);
  sum.limit = std::move(key.limit);
  entry->second.fresh_at = std::max(entry->second.fresh_at, fresh_at);
  return 0;
}

void ChargeBack::subtract(const Space& space, const KeyHash& hash, std::int64_t units) {
  if (is_empty()) return;
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  const auto entry = shard.entries.find({.space = &space, .hash = hash});
  if (entry == shard.entries.end()) return;
  std::int64_t& sum = entry->second.key.units;
  sum = std::max<std::int64_t>(0, sum - units);
  if (sum == 0) erase(shard, entry);
}

void ChargeBack::forget(const Space& space, const KeyHash& hash) {
  subtract(space, hash, kMaxInt64);
}

std::vector<ChargeBack::Key> ChargeBack::take(Instant now) {
  constexpr std::size_t kAtOnce = 256;
  std::vector<Key> keys;
  for (std::size_t i = 0; i < kShards && keys.size() < kAtOnce; ++i) {
    Shard& shard = shards_[next_shard_.fetch_add(1, std::memory_order_relaxed) % kShards];
    const std::lock_guard lock(shard.mutex);
    for (auto& [id, entry] : shard.entries) {
      if (entry.fresh_at <= now) continue;
      keys.push_back(std::move(entry.key));
      keys.back().hash = id.hash;
      keys.back().fresh_at = entry.fresh_at;
    }
    size_.fetch_sub(shard.entries.size(), std::memory_order_relaxed);
    shard.entries.clear();
  }
  return keys;
}

// False where the shard is full of keys that are not fresh.
bool ChargeBack::make_room(Shard& shard, Instant now) {
  constexpr std::size_t kMost = kMaxKeys / kShards;
  if (shard.entries.size() < kMost) return true;
  if (now < shard.next_fresh_at) return false;
  shard.next_fresh_at = kMaxInt64;
  for (auto entry = shard.entries.begin(); entry != shard.entries.end();) {
    const auto here = entry++;
    if (here->second.fresh_at <= now) {
      erase(shard, here);
    } else {
      shard.next_fresh_at = std::min(shard.next_fresh_at, here->second.fresh_at);
    }
  }
  return shard.entries.size() < kMost;
}

void ChargeBack::erase(Shard& shard, std::unordered_map<Id, Entry, HashOfId>::iterator entry) {
  shard.entries.erase(entry);
  size_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace sluice
