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

#include "sluice/decision.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// While a caller waits for units of a store that other processes share, the store is asked again
/// this long after it was asked last: with the round trip, within a second.
inline constexpr std::chrono::milliseconds kPauseForUnits{850};

/// What another caller of this process has done, for which waiting callers are woken.
enum class Waking : std::uint8_t {
  kBlocked,   ///< It has blocked the key.
  kReset,     ///< It has reset the key.
  kReplaced,  ///< It has replaced the limit of a limiter of this space.
  kReturned,  ///< It has returned units or a permit of the key. Only queues are told.
};

/// Who waits in this process for keys of one space, and is told of events of each key: the queues
/// (each of them for its callers), the callers that have reserved units, and so are in no queue,
/// and those that want units of several limits together, and wait in the queue of one.
///
/// A thread that resets or blocks a key, or replaces a limit, wakes them. What other processes give
/// back, only the store knows. So callers that have reserved units of a store that processes share
/// `ask` it whether they may go ahead early: of each key one caller, every kPauseForUnits.
///
/// Thread-safe, except what is said to be called on the timer thread.
class WaitingCallers {
 public:
  /// `denial` is that by the block, if it was one.
  using Wake = std::function<void(Waking why, const Decision& denial)>;
  /// Asks the store, without waiting for the answer. Returns false if the caller need not ask, now
  /// or later.
  using Ask = std::function<bool()>;
  /// So many keys that were reset or blocked, of all limits together, are remembered, by their
  /// hashes. Then all are forgotten, and count as reset.
  static constexpr std::size_t kMostKeys = 65'536;

  /// How many events were counted in this process, for all limits together: calls of wake() and
  /// limit_replaced(), and resets that have begun or ended.
  static std::uint64_t wakings() { return count_.load(std::memory_order_acquire); }

  /// A caller that waits for a key, or a queue of those, until it is destroyed. It is made and
  /// destroyed on the timer thread.
  class Caller {
   public:
    /// `since` is the value of wakings() before the store was asked: `wake` is called for events
    /// that began later. If that was before now, it is called at once, for the last of them; so it
    /// is, if seldom, for an event of another key. It may be called several times, on any thread
    /// and with a lock held: it must be short, and must not use the WaitingCallers. `ask` is called
    /// on the timer thread, to which `timer` belongs, and makes and destroys no caller; both are
    /// null if the caller never asks.
    Caller(WaitingCallers& callers, std::string_view key, std::uint64_t since, bool is_queue,
           Wake wake, Ask ask = nullptr, const std::shared_ptr<TimerQueue>& timer = nullptr);
    ~Caller();
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

   private:
    WaitingCallers& callers_;
    const std::string key_;
    const std::uint64_t since_;
    const bool is_queue_;
    const Wake wake_;
    const Ask ask_;
    std::list<const Caller*>::iterator place_;

    friend class WaitingCallers;
  };

  /// The number of callers, without queues. One that waits for several keys of the space counts for
  /// each.
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

  /// Wakes those that wait for the key, and asked the store before the event `begun`: the store has
  /// blocked it, or reset it. (Those that asked during a reset keep their reservations: the store
  /// may have made them after it.)
  void wake(std::string_view key, Waking why, const Decision& denial = {},
            std::uint64_t begun = begin_event());
  /// Wakes the queues of the key: units or a permit were returned, or it was reset.
  void returned(std::string_view key) const;
  /// Wakes all that wait: a limiter's limit was replaced.
  void limit_replaced();

  /// Whether a reset in this process may have forgotten units of the key: then a refund would
  /// return units that others have taken since. `since` is the value of wakings() before the store
  /// was asked for them. Says yes if it does not know: if a reset that began later is not answered,
  /// if one ended later, or if kMostKeys others were remembered later. (Of one that is still under
  /// way and began earlier it says no.)
  bool was_reset(std::string_view key, std::uint64_t since) const;

 private:
  struct Key {
    // The queues, then the others in the order in which they came.
    std::list<const Caller*> callers;
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
  std::uint64_t last_replaced_ = 0;  // The number of that event. Guarded by mutex_.
};

}  // namespace sluice
