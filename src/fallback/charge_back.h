#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/instant.h"
#include "fallback/fallback_space.h"

namespace sluice {

/// The units that this process has admitted while the store did not answer, to be charged to the
/// store when it does: one sum for each key. They are kept until the store has said that it charged
/// them, or the key is fresh.
///
/// Bounded: kMaxKeys keys, of at most kMaxKeyBytes each. Thread-safe. Instants are those of one
/// clock.
class ChargeBack {
 public:
  static constexpr std::size_t kMaxKeys = 16'384;
  static constexpr std::size_t kMaxKeyBytes = 1024;
  /// Callers of the store wait behind them, for a millisecond or so.
  static constexpr std::size_t kAtOnce = 256;
  /// After a refused charge only charges of named keys are sent for kPause (see take()), and none
  /// of the refused key for kPauseOfKey.
  static constexpr std::int64_t kPause = 100'000'000;
  static constexpr std::int64_t kPauseOfKey = 1'000'000;

  /// Units of a key, and the limit that admitted the latest of them.
  struct Charge {
    KeyName name;
    std::shared_ptr<const LimitDefinition> limit = {};
    std::string key = {};
    std::int64_t units = 0;
    /// Of the entry: tells it from a later one for the same key.
    std::uint64_t entry = 0;
  };

  /// Whether there is nothing to send. One relaxed load.
  bool is_empty() const { return unsent_.load(std::memory_order_relaxed) == 0; }

  /// These units were admitted at `now`; at `fresh_at` the key is fresh, so that they do not matter
  /// any more. Returns the units that cannot be kept: 0 or all of them.
  /// `is_sent`: the store was sent the request that takes them, and its answer may still come:
  /// settle() is called then. Sets charge.entry for that.
  std::int64_t add(Charge& charge, Instant now, Instant fresh_at, bool is_sent) {
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

  /// Units were returned: there is as much less to charge, though never less than nothing.
  void subtract(const KeyName& name, std::int64_t units) {
    change(name, [&](Entry& entry) {
      set_units(entry, std::max<std::int64_t>(0, entry.charge.units - units));
    });
  }

  /// The key was reset: there is nothing to charge for it, and nothing of it counts.
  void forget(const KeyName& name) {
    change(name, [&](Entry& entry) {
      set_units(entry, 0);
      entry.sent = 0;
    });
  }

  /// The units of a key that the store may not have charged yet: all but those that it said it
  /// charged.
  std::int64_t pending(const KeyName& name, Instant now) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.fresh_at <= now) return 0;
    const Entry& entry = found->second;
    return saturated_sum(entry.charge.units, entry.sent);
  }

  /// Whether there is something to charge now.
  bool may_charge(Instant now) const {
    return !is_empty() && now >= next_try_.load(std::memory_order_relaxed);
  }

  /// Returns the charges of at most kAtOnce keys that are not fresh by now; the next call goes on
  /// with the others. They are sent to the store, and then given to settle().
  std::vector<Charge> take(Instant now) {
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
  /// The same, for these keys, but for those of which a charge was refused within kPauseOfKey.
  std::vector<Charge> take(std::span<const KeyName> names, Instant now) {
    const std::lock_guard lock(mutex_);
    std::vector<Charge> charges;
    for (const KeyName& name : names) {
      const auto found = entries_.find(name);
      if (found == entries_.end() || now < found->second.refused_at + kPauseOfKey) continue;
      take(found, now, charges);
    }
    return charges;
  }

  enum class Outcome : std::uint8_t {
    kOver,        ///< The store has charged them, or they do not count any more.
    kNotCharged,  ///< The store has not charged them with the request: they are charged now.
    kNotSent,     ///< It was refused: they are charged after a pause.
  };
  /// What became of `units` of a charge that take() returned, or that was added as sent. Not called
  /// where the store may have charged them: they are pending until the key is fresh, and are not
  /// sent again.
  void settle(const Charge& charge, std::int64_t units, Outcome outcome, Instant now) {
    const bool is_sent_again = outcome != Outcome::kOver;
    const bool was_refused = outcome == Outcome::kNotSent;
    // Not again during a pause, or one key that is refused again and again would hold up all
    // others.
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

 private:
  struct Entry {
    Charge charge;  // Its units are those to be sent.
    Instant fresh_at = 0;
    Instant refused_at = 0;
    std::int64_t sent = 0;  // Those of which the store has not said that it charged them.
  };
  using Entries = std::map<KeyName, Entry>;

  // Does this with the key's entry, if there is one, and erases it if nothing is left in it.
  template <class Change>
  void change(const KeyName& name, Change change_entry) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    change_entry(entry);
    if (entry.charge.units == 0 && entry.sent == 0) erase(found);
  }

  // If it is full, looks at the next few keys, and erases those that are fresh. Looking at all of
  // them would make the other callers wait.
  bool make_room(Instant now) {
    constexpr std::size_t kLookedAt = 32;
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

  // REQUIRES: mutex_ is held.
  void take(Entries::iterator found, Instant now, std::vector<Charge>& charges) {
    Entry& entry = found->second;
    if (entry.fresh_at <= now) return erase(found);
    if (entry.charge.units == 0) return;
    charges.push_back(entry.charge);
    entry.sent = saturated_sum(entry.sent, entry.charge.units);
    set_units(entry, 0);
  }

  void set_units(Entry& entry, std::int64_t units) {
    const bool was_unsent = entry.charge.units > 0;
    entry.charge.units = units;
    if (units > 0 && !was_unsent) unsent_.fetch_add(1, std::memory_order_relaxed);
    if (units == 0 && was_unsent) unsent_.fetch_sub(1, std::memory_order_relaxed);
  }

  void erase(Entries::iterator entry) {
    set_units(entry->second, 0);
    entries_.erase(entry);
  }

  std::mutex mutex_;  // guards the next four
  Entries entries_;
  std::uint64_t last_entry_ = 0;
  KeyName last_taken_;
  KeyName last_looked_at_;
  std::atomic<std::size_t> unsent_{0};  // Entries with units to be sent.
  std::atomic<Instant> next_try_{0};
};

}  // namespace sluice
