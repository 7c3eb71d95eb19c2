#pragma once

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
#include "core/instant.h"
#include "fallback/key_name.h"

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
    std::shared_ptr<const LimitDefinition> limit;
    std::string key;
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
  std::int64_t add(Charge& charge, Instant now, Instant fresh_at, bool is_sent);

  /// Units were returned: there is as much less to charge, though never less than nothing.
  void subtract(const KeyName& name, std::int64_t units);

  /// The key was reset: there is nothing to charge for it, and nothing of it counts.
  void forget(const KeyName& name);

  /// The units of a key that the store may not have charged yet: all but those that it said it
  /// charged.
  std::int64_t pending(const KeyName& name, Instant now);

  /// Whether there is something to charge now.
  bool may_charge(Instant now) const {
    return !is_empty() && now >= next_try_.load(std::memory_order_relaxed);
  }

  /// Returns the charges of at most kAtOnce keys that are not fresh by now; the next call goes on
  /// with the others. They are sent to the store, and then given to settle().
  std::vector<Charge> take(Instant now);
  /// The same, for these keys, but for those of which a charge was refused within kPauseOfKey.
  std::vector<Charge> take(std::span<const KeyName> names, Instant now);

  enum class Outcome : std::uint8_t {
    kOver,        ///< The store has charged them, or they do not count any more.
    kNotCharged,  ///< The store has not charged them with the request: they are charged now.
    kNotSent,     ///< It was refused: they are charged after a pause.
  };
  /// What became of `units` of a charge that take() returned, or that was added as sent. Not called
  /// where the store may have charged them: they are pending until the key is fresh, and are not
  /// sent again.
  void settle(const Charge& charge, std::int64_t units, Outcome outcome, Instant now);

 private:
  struct Entry {
    Charge charge;  // Its units are those to be sent.
    Instant fresh_at = 0;
    Instant refused_at = 0;
    std::int64_t sent = 0;  // Those of which the store has not said that it charged them.
  };
  using Entries = std::map<KeyName, Entry>;

  template <class Change>
  void change(const KeyName& name, Change change_entry);
  bool make_room(Instant now);
  void take(Entries::iterator found, Instant now, std::vector<Charge>& charges);
  void set_units(Entry& entry, std::int64_t units);
  void erase(Entries::iterator entry);

  // How many keys add() looks at for one that is fresh.
  static constexpr std::size_t kLookedAt = 32;

  std::mutex mutex_;  // guards the next four
  Entries entries_;
  std::uint64_t last_entry_ = 0;
  KeyName last_taken_;
  KeyName last_looked_at_;
  std::atomic<std::size_t> unsent_{0};  // Entries with units to be sent.
  std::atomic<Instant> next_try_{0};
};

}  // namespace sluice
