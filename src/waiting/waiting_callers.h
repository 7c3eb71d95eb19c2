#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "waiting/limit_binding.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// While a caller waits for units of a store that other processes share, the store is asked again
/// this long after it was asked last: with the round trip, within a second.
inline constexpr std::chrono::milliseconds kPauseForUnits{850};

/// Why a waiting caller is woken.
enum class Waking : std::uint8_t {
  kBlocked,   ///< Another caller of this process has blocked the key.
  kAskAgain,  ///< Another caller of this process has reset the key, or replaced the limit.
};

/// The callers of this process that wait for keys of one space and are told of events of each key:
/// those that have reserved units, and so are in no queue, and those that want units of several
/// limits together, and wait in the queue of one.
///
/// A thread that resets or blocks a key, or replaces a limit, wakes them. What other processes give
/// back, only the store knows. So callers that have reserved units of a store that processes share
/// `ask` it whether they may go ahead early: of each key one caller, every kPauseForUnits.
///
/// Thread-safe, except what is said to be called on the timer thread.
class WaitingCallers {
 public:
  /// `lasts` is the duration of a block; 0 if it is not known.
  using Wake = std::function<void(Waking why, std::chrono::nanoseconds lasts)>;
  /// Asks the store, without waiting for the answer. Returns false if the caller need not ask, now
  /// or later.
  using Ask = std::function<bool()>;
  /// The events of all keys of all limits are counted in two arrays of so many places. Each key has
  /// one place in each, by its hash: only a key of which others share both is taken for theirs.
  static constexpr std::size_t kPlaces = 65'536;

  /// How many events were counted in this process, for all limits together: calls of wake() and
  /// wake_all(), and resets that have begun or ended.
  static std::uint64_t wakings() { return count_.load(std::memory_order_acquire); }

  /// A caller that waits for a key, until it is destroyed. It is made and destroyed on the timer
  /// thread.
  class Caller {
   public:
    /// `since` is the value of wakings() before the store was asked: `wake` is called for events
    /// that began later. If that was before now, it is called at once, for the last of them; so it
    /// is, if seldom, for an event of another key. It may be called several times, on any thread
    /// and with a lock held: it must be short, and must not use the WaitingCallers. `ask` is called
    /// on the timer thread, to which `timer` belongs, and makes and destroys no caller; both are
    /// null if the caller never asks.
    Caller(WaitingCallers& callers, std::string_view key, const LimitBinding& binding,
           std::uint64_t since, Wake wake, Ask ask = nullptr,
           const std::shared_ptr<TimerQueue>& timer = nullptr);
    ~Caller();
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

   private:
    WaitingCallers& callers_;
    const std::string key_;
    const LimitBinding& binding_;
    const std::uint64_t since_;
    const Wake wake_;
    const Ask ask_;
    std::list<const Caller*>::iterator place_;

    friend class WaitingCallers;
  };

  /// The number of callers. One that waits for several keys of the space counts for each.
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }

  /// The first caller of the key for which `ask` returns true asks now, and one again after each
  /// pause. Called on the timer thread.
  void ask(std::string_view key);

  /// Called before the store is asked to reset the key: it may forget units from now on. The result
  /// is for wake().
  std::uint64_t begin_reset(std::string_view key);
  /// Called when the store has answered, or will not: units taken since begin_reset() may be
  /// forgotten, too.
  void end_reset(std::string_view key) { begin_reset(key); }

  /// Wakes the callers that wait for the key, and asked the store before the event `begun`. (Those
  /// that asked during a reset keep their reservations: the store may have made them after it.)
  void wake(std::string_view key, Waking why, std::chrono::nanoseconds lasts = {},
            std::uint64_t begun = begin_event());
  /// Wakes the callers that wait under this limit: it was replaced.
  void wake_all(const LimitBinding& binding);

  /// Whether a reset in this process may have forgotten units of the key: then a refund would
  /// return units that others have taken since. `since` is the value of wakings() before the store
  /// was asked for them. Says yes if it does not know: if a reset that began later is not answered,
  /// if one ended later, or if its places are those of keys that were reset. (Of one that is still
  /// under way and began earlier it says no.)
  bool was_reset(std::string_view key, std::uint64_t since) const;

 private:
  struct Key {
    std::list<const Caller*> callers;   // In the order in which they came.
    std::shared_ptr<TimerQueue> timer;  // Null if none of them may ask.
    TimerQueue::Timer next_ask;
  };
  using Keys = std::map<std::string, Key, std::less<>>;
  static std::uint64_t begin_event() { return count_.fetch_add(1, std::memory_order_acq_rel) + 1; }
  void ask_after_pause(Keys::iterator key);
  static inline constinit std::atomic<std::uint64_t> count_{0};
  std::atomic<std::size_t> size_{0};
  mutable std::mutex mutex_;
  // Changed on the timer thread only, with mutex_ held; other threads hold mutex_ to read it.
  Keys keys_;
  std::uint64_t last_wake_all_ = 0;  // The number of that event. Guarded by mutex_.
};

}  // namespace sluice
