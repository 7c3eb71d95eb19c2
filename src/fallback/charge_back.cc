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
  auto found = shard.entries.find(id);
  if (found == shard.entries.end()) {
    if (!make_room(shard, now)) return key.units;
    found = shard.entries.emplace(id, Entry{}).first;
  }
  Entry& entry = found->second;
  // The space at this address may be a new one, or the key may have become fresh meanwhile.
  if (entry.fresh_at <= now || entry.key.space.expired()) {
    set_units(entry, 0);
    entry.sent = 0;
  }
  key.units += std::min(entry.key.units, kMaxInt64 - key.units);
  set_units(entry, key.units);
  entry.key = std::move(key);
  entry.fresh_at = std::max(entry.fresh_at, fresh_at);
  return 0;
}

std::int64_t ChargeBack::pending(const Space& space, const KeyHash& hash, Instant now) {
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find({.space = &space, .hash = hash});
  if (found == shard.entries.end()) return 0;
  const Entry& entry = found->second;
  if (entry.fresh_at <= now || entry.key.space.expired()) return 0;
  return entry.key.units + std::min(entry.sent, kMaxInt64 - entry.key.units);
}

void ChargeBack::subtract(const Space& space, const KeyHash& hash, std::int64_t units) {
  if (is_empty()) return;
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find({.space = &space, .hash = hash});
  if (found == shard.entries.end()) return;
  Entry& entry = found->second;
  set_units(entry, std::max<std::int64_t>(0, entry.key.units - units));
  if (entry.key.units == 0 && entry.sent == 0) erase(shard, found);
}

void ChargeBack::forget(const Space& space, const KeyHash& hash) {
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find({.space = &space, .hash = hash});
  if (found != shard.entries.end()) erase(shard, found);
}

std::vector<ChargeBack::Key> ChargeBack::take(Instant now) {
  constexpr std::size_t kAtOnce = 256;
  std::vector<Key> keys;
  for (std::size_t i = 0; i < kShards && keys.size() < kAtOnce; ++i) {
    Shard& shard = shards_[next_shard_.fetch_add(1, std::memory_order_relaxed) % kShards];
    const std::lock_guard lock(shard.mutex);
    for (auto next = shard.entries.begin(); next != shard.entries.end();) {
      const auto found = next++;
      Entry& entry = found->second;
      const bool is_fresh = entry.fresh_at <= now;
      if (!is_fresh && entry.key.units > 0) {
        keys.push_back(entry.key);
        keys.back().hash = found->first.hash;
        entry.sent += std::min(entry.key.units, kMaxInt64 - entry.sent);
        set_units(entry, 0);
      }
      if (is_fresh || entry.key.space.expired()) erase(shard, found);
    }
  }
  return keys;
}

void ChargeBack::settle(const Key& key, std::int64_t units, Outcome outcome, Instant now) {
  if (outcome == Outcome::kUnknown) return;
  const bool is_sent_again = outcome == Outcome::kNotSent;
  if (is_sent_again) next_try_.store(now + kPause, std::memory_order_relaxed);
  Shard& shard = shard_of(key.hash);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find({.space = key.space.lock().get(), .hash = key.hash});
  if (found == shard.entries.end()) return;
  Entry& entry = found->second;
  units = std::min(units, entry.sent);
  entry.sent -= units;
  if (is_sent_again)
    set_units(entry, entry.key.units + std::min(units, kMaxInt64 - entry.key.units));
  if (entry.key.units == 0 && entry.sent == 0) erase(shard, found);
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

void ChargeBack::set_units(Entry& entry, std::int64_t units) {
  const bool was_unsent = entry.key.units > 0;
  entry.key.units = units;
  if (units > 0 && !was_unsent) unsent_.fetch_add(1, std::memory_order_relaxed);
  if (units == 0 && was_unsent) unsent_.fetch_sub(1, std::memory_order_relaxed);
}

void ChargeBack::erase(Shard& shard, Entries::iterator entry) {
  set_units(entry->second, 0);
  shard.entries.erase(entry);
}

}  // namespace sluice
