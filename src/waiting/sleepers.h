#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "waiting/limit_binding.h"

namespace sluice {

/// Why a waiting caller is woken.
enum class Waking : std::uint8_t {
  kReady,     ///< The units are there: the caller may go ahead.
  kStopped,   ///< The caller's stop token was requested to stop.
  kReset,     ///< Another caller of this process has reset the key: the reservation is forgotten.
  kBlocked,   ///< Another caller of this process has blocked the key.
  kReplaced,  ///< Another caller of this process has replaced the limit.
};

/// The callers of this process that wait and learn of events of the keys of one space: those that
/// have reserved units of them, and those that want units of several limits together, and wait in
/// the queue of one. Thread-safe.
class Sleepers {
 public:
  /// `lasts` is the duration of a block.
  using Wake = std::function<void(Waking why, std::chrono::nanoseconds lasts)>;
  /// Of so many keys that were reset last, it is known which; of at most twice as many.
  static constexpr std::size_t kMostResets = 65'536;

  /// How many events were counted in this process, for all limits together: calls of wake() and
  /// wake_all(), and resets that have begun.
  static std::uint64_t wakings() { return count_.load(std::memory_order_acquire); }

  /// A waiting caller, until it is destroyed. `since` is the value of wakings() before the store
  /// was asked: `wake` is called for events that began later, at once if that was before now. It
  /// may be called several times, with a lock held: it must be short, and must not use the
  /// Sleepers.
  class Sleeper {
   public:
    Sleeper(Sleepers& sleepers, std::string_view key, const LimitBinding& binding,
            std::uint64_t since, Wake wake);
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    Sleepers& sleepers_;
    std::multimap<std::string, const Sleeper*, std::less<>>::iterator place_;
    const LimitBinding& binding_;
    const std::uint64_t since_;
    const Wake wake_;

    friend class Sleepers;
  };

  /// Called before the store is asked to reset the key: it may forget units from now on. The result
  /// is for wake().
  std::uint64_t begin_reset(std::string_view key);

  /// Wakes the callers that wait for the key, and asked the store before the event `begun`. (Those
  /// that asked during a reset keep their reservations: the store may have made them after it.)
  void wake(std::string_view key, Waking why, std::chrono::nanoseconds lasts = {},
            std::uint64_t begun = begin_event());
  /// Wakes the callers that wait under this limit.
  void wake_all(const LimitBinding& binding, Waking why);

  /// Whether a reset in this process may have forgotten units of the key: then a refund would
  /// return units that others have taken since. `since` is the value of wakings() before the store
  /// was asked for them. Says yes if it does not know: if a reset is not answered, or if more than
  /// kMostResets keys were reset since.
  bool was_reset(std::string_view key, std::uint64_t since) const;

 private:
  /// A call of wake() or wake_all().
  struct Event {
    std::uint64_t begun;  // Its number, counted when it began.
    Waking why;
    std::chrono::nanoseconds lasts;
    std::size_t key_hash;
    const LimitBinding* binding;  // Null: wake(), for a key.
  };
  static constexpr std::size_t kMostRemembered = 64;
  /// The number of each key's last reset, by the hash of the key.
  using Resets = std::unordered_map<std::size_t, std::uint64_t>;

  static std::uint64_t begin_event() { return count_.fetch_add(1, std::memory_order_acq_rel) + 1; }
  void remember(const Event& event);
  std::optional<Event> missed(std::string_view key, const LimitBinding& binding,
                              std::uint64_t since) const;

  static inline constinit std::atomic<std::uint64_t> count_{0};
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::multimap<std::string, const Sleeper*, std::less<>> sleepers_;
  std::vector<Event> events_;    // The last ones.
  std::uint64_t forgotten_ = 0;  // The highest number of an event that is no longer in events_.
  // When the first is full, it becomes the second, and what was the second is forgotten.
  Resets resets_;
  Resets former_resets_;
  std::uint64_t last_former_ = 0;       // No reset of former_resets_ has a higher number,
  std::uint64_t resets_forgotten_ = 0;  // and no forgotten one has a higher number than this.
};

}  // namespace sluice
