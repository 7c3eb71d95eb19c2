#include "fallback/charge_back.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/arithmetic.h"

namespace sluice {
namespace {

// REQUIRES: neither is negative.
std::int64_t add_up(std::int64_t units, std::int64_t more) {
  assert(units >= 0 && more >= 0);
  return units + std::min(more, kMaxInt64 - units);
}

}  // namespace

std::int64_t ChargeBack::add(Charge charge, Instant now, Instant fresh_at) {
  if (charge.key.size() > kMaxKeyBytes) return charge.units;
  Shard& shard = shard_of(charge.name);
  const std::lock_guard lock(shard.mutex);
  auto found = shard.entries.find(charge.name);
  if (found != shard.entries.end() && found->second.fresh_at <= now) {
    erase(shard, found);
    found = shard.entries.end();
  }
  if (found == shard.entries.end()) {
    if (!make_room(shard, now)) return charge.units;
    found = shard.entries.emplace(charge.name, Entry{}).first;
    found->second.charge.entry = ++shard.last_entry;
  }
  Entry& entry = found->second;
  charge.entry = entry.charge.entry;
  charge.units = add_up(charge.units, entry.charge.units);
  set_units(entry, charge.units);
  entry.charge = std::move(charge);
  entry.fresh_at = std::max(entry.fresh_at, fresh_at);
  shard.next_fresh_at = std::min(shard.next_fresh_at, entry.fresh_at);
  return 0;
}

std::int64_t ChargeBack::pending(const KeyName& name, Instant now) {
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(name);
  if (found == shard.entries.end() || found->second.fresh_at <= now) return 0;
  const Entry& entry = found->second;
  return add_up(entry.charge.units, entry.sent);
}

// Does this with the key's entry, if there is one, and erases it if nothing is left in it.
template <class Change>
void ChargeBack::change(const KeyName& name, Change change_entry) {
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(name);
  if (found == shard.entries.end()) return;
  Entry& entry = found->second;
  change_entry(entry);
  if (entry.charge.units == 0 && entry.sent == 0) erase(shard, found);
}

void ChargeBack::subtract(const KeyName& name, std::int64_t units) {
  if (is_empty()) return;
  change(name, [&](Entry& entry) {
    set_units(entry, std::max<std::int64_t>(0, entry.charge.units - units));
  });
}

void ChargeBack::forget(const KeyName& name) {
  change(name, [&](Entry& entry) {
    set_units(entry, 0);
    entry.sent = 0;
  });
}

std::vector<ChargeBack::Charge> ChargeBack::take(Instant now) {
  constexpr std::size_t kAtOnce = 256;
  std::vector<Charge> charges;
  for (std::size_t i = 0; i < kShards && charges.size() < kAtOnce; ++i) {
    Shard& shard = shards_[next_shard_.fetch_add(1, std::memory_order_relaxed) % kShards];
    const std::lock_guard lock(shard.mutex);
    for (auto next = shard.entries.begin(); next != shard.entries.end();) {
      const auto found = next++;
      Entry& entry = found->second;
      const bool is_fresh = entry.fresh_at <= now;
      if (!is_fresh && entry.charge.units > 0) {
        charges.push_back(entry.charge);
        entry.sent = add_up(entry.sent, entry.charge.units);
        set_units(entry, 0);
      }
      if (is_fresh) erase(shard, found);
    }
  }
  return charges;
}

void ChargeBack::settle(const Charge& charge, std::int64_t units, Outcome outcome, Instant now) {
  if (outcome == Outcome::kUnknown) return;
  const bool is_sent_again = outcome == Outcome::kNotSent;
  if (is_sent_again) next_try_.store(now + kPause, std::memory_order_relaxed);
  change(charge.name, [&](Entry& entry) {
    if (entry.charge.entry != charge.entry) return;  // That one was reset, or became fresh.
    const std::int64_t settled = std::min(units, entry.sent);
    entry.sent -= settled;
    if (is_sent_again) set_units(entry, add_up(entry.charge.units, settled));
  });
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
  const bool was_unsent = entry.charge.units > 0;
  entry.charge.units = units;
  if (units > 0 && !was_unsent) unsent_.fetch_add(1, std::memory_order_relaxed);
  if (units == 0 && was_unsent) unsent_.fetch_sub(1, std::memory_order_relaxed);
}

void ChargeBack::erase(Shard& shard, Entries::iterator entry) {
  set_units(entry->second, 0);
  shard.entries.erase(entry);
}

}  // namespace sluice
