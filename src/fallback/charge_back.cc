#include "fallback/charge_back.h"

#include <algorithm>

#include "core/arithmetic.h"

namespace sluice {

std::int64_t ChargeBack::add(Charge& charge, Instant now, Instant fresh_at, bool is_sent) {
  if (charge.key.size() > kMaxKeyBytes) return charge.units;
  const std::lock_guard lock(mutex_);
  auto found = entries_.find(charge.name);
  if (found != entries_.end() && found->second.fresh_at <= now) {
    erase(found);
    found = entries_.end();
  }
  if (found == entries_.end()) {
    if (!make_room(now)) return charge.units;
    found = entries_.emplace(charge.name, Entry{}).first;
    found->second.charge.entry = ++last_entry_;
  }
  Entry& entry = found->second;
  charge.entry = entry.charge.entry;
  if (is_sent) entry.sent = saturated_sum(entry.sent, charge.units);
  set_units(entry, saturated_sum(entry.charge.units, is_sent ? 0 : charge.units));
  const std::int64_t unsent = entry.charge.units;
  entry.charge = charge;
  entry.charge.units = unsent;
  entry.fresh_at = std::max(entry.fresh_at, fresh_at);
  return 0;
}

std::int64_t ChargeBack::pending(const KeyName& name, Instant now) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.fresh_at <= now) return 0;
  const Entry& entry = found->second;
  return saturated_sum(entry.charge.units, entry.sent);
}

// Does this with the key's entry, if there is one, and erases it if nothing is left in it.
template <class Change>
void ChargeBack::change(const KeyName& name, Change change_entry) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  change_entry(entry);
  if (entry.charge.units == 0 && entry.sent == 0) erase(found);
}

void ChargeBack::subtract(const KeyName& name, std::int64_t units) {
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
  const std::lock_guard lock(mutex_);
  std::vector<Charge> charges;
  auto next = entries_.upper_bound(last_taken_);
  for (std::size_t left = entries_.size(); left > 0 && charges.size() < kAtOnce; --left) {
    if (next == entries_.end()) next = entries_.begin();
    take(next++, now, charges);
  }
  if (!charges.empty()) last_taken_ = charges.back().name;
  return charges;
}

std::vector<ChargeBack::Charge> ChargeBack::take(std::span<const KeyName> names, Instant now) {
  const std::lock_guard lock(mutex_);
  std::vector<Charge> charges;
  for (const KeyName& name : names) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || now < found->second.refused_at + kPauseOfKey) continue;
    take(found, now, charges);
  }
  return charges;
}

// REQUIRES: mutex_ is held.
void ChargeBack::take(Entries::iterator found, Instant now, std::vector<Charge>& charges) {
  Entry& entry = found->second;
  if (entry.fresh_at <= now) return erase(found);
  if (entry.charge.units == 0) return;
  charges.push_back(entry.charge);
  entry.sent = saturated_sum(entry.sent, entry.charge.units);
  set_units(entry, 0);
}

void ChargeBack::settle(const Charge& charge, std::int64_t units, Outcome outcome, Instant now) {
  const bool is_sent_again = outcome != Outcome::kOver;
  const bool was_refused = outcome == Outcome::kNotSent;
  // Not again during a pause, or one key that is refused again and again would hold up all others.
  if (was_refused && now >= next_try_.load(std::memory_order_relaxed)) {
    next_try_.store(now + kPause, std::memory_order_relaxed);
  }
  change(charge.name, [&](Entry& entry) {
    if (entry.charge.entry != charge.entry) return;  // That one was reset, or became fresh.
    if (was_refused) entry.refused_at = now;
    const std::int64_t settled = std::min(units, entry.sent);
    entry.sent -= settled;
    if (is_sent_again) set_units(entry, saturated_sum(entry.charge.units, settled));
  });
}

// If it is full, looks at the next few keys, and erases those that are fresh. Looking at all of
// them would make the other callers wait.
bool ChargeBack::make_room(Instant now) {
  if (entries_.size() < kMaxKeys) return true;
  auto next = entries_.upper_bound(last_looked_at_);
  for (std::size_t left = kLookedAt; left > 0; --left) {
    if (next == entries_.end()) next = entries_.begin();
    const auto here = next++;
    last_looked_at_ = here->first;
    if (here->second.fresh_at <= now) erase(here);
  }
  return entries_.size() < kMaxKeys;
}

void ChargeBack::set_units(Entry& entry, std::int64_t units) {
  const bool was_unsent = entry.charge.units > 0;
  entry.charge.units = units;
  if (units > 0 && !was_unsent) unsent_.fetch_add(1, std::memory_order_relaxed);
  if (units == 0 && was_unsent) unsent_.fetch_sub(1, std::memory_order_relaxed);
}

void ChargeBack::erase(Entries::iterator entry) {
  set_units(entry->second, 0);
  entries_.erase(entry);
}

}  // namespace sluice
