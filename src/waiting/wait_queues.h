#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>

#include "waiting/release_fairness.h"
#include "waiting/requests.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// The queues of one space, in which the callers of this process wait: one for each key for which
/// any waits. All limiters over the space share them (Space::attachment()). Thread-safe.
///
/// In a queue, first come first served. Only the first asks the store, one question at a time: when
/// it comes, as what was denied to it before may have been returned by then, and again
/// - when a permit or units were returned in this process, the key was reset or its limit changed
///   here, or the store tells of a permit released elsewhere;
/// - once `retry_after` is over: of a window's denial exactly then;
/// - of a permit that other processes share earlier: after a pause of 5 ms, then of twice as much
///   each time up to kMostPause, each with jitter, so that processes do not ask in step; of up to
///   kMostPausePassedOver once it has been granted nothing for kPassedOver, longer than another
///   process has a run of grants, where the store does not tell this process of releases.
/// A caller that is granted, or denied for good, or whose timeout is over, leaves, and the next one
/// asks. An answer that comes after its caller has left is returned.
///
/// None starves. In a queue, no caller is overtaken: each of those before it leaves with a permit
/// that ends (it is released, or its lease expires) or at the end of its timeout; and a caller that
/// comes later asks directly only where the queue is empty. Between processes, a permit that is
/// released goes to the one that asks first; no process is always the first (ReleaseFairness).
///
/// A caller that wants many units of a window holds up those behind it until they fit: that is what
/// keeps it from starving.
class WaitQueues final {
 public:
  /// So many wait at most; one more is denied at once.
  static constexpr std::size_t kMostWaiting = 100'000;
  static constexpr std::chrono::milliseconds kLeastPause = kSoon;
  static constexpr std::chrono::milliseconds kMostPause{100};
  static constexpr std::chrono::milliseconds kMostPausePassedOver{20};
  static constexpr std::chrono::seconds kPassedOver{3};

  /// Called once, with the outcome, on the timer thread.
  using Done = std::function<void(const AcquireOutcome&)>;

  WaitQueues() = default;
  /// For tests. Else the timer thread is the process's, from when a caller waits.
  explicit WaitQueues(std::shared_ptr<TimerThread> timer) : timer_(std::move(timer)) {}

  /// Whether a caller may ask the store on its own for this key. As long as none waits for any key,
  /// that is one look at a number.
  bool is_empty(std::string_view key) const {
    return waiting_.load(std::memory_order_acquire) == 0 || !has_queue(key);
  }

  /// How many wait, for all keys.
  std::size_t waiting() const { return waiting_.load(std::memory_order_acquire); }

  /// Waits in the queue. `denied`: the store was asked before and denied it, just now. What ends it
  /// early is `stop`. Throws std::system_error where the system gives no thread.
  void wait(AcquireRequest request, std::optional<Decision> denied, const std::stop_token& stop,
            Done done);

  /// The same, on the calling thread.
  AcquireOutcome wait(AcquireRequest request, std::optional<Decision> denied,
                      const std::stop_token& stop);

  /// Acquires without blocking: asks the store first, unless others `go_first`, and waits if it is
  /// denied. Callers that ask before one of them waits do not wait for each other. Of a store that
  /// answers at once `done` is called before this returns, where it need not wait. What this would
  /// throw is part of the outcome.
  void acquire(AcquireRequest request, bool others_go_first, const std::stop_token& stop,
               const Done& done);

  /// A permit or units of the key were returned, or the key was reset: the first in the queue
  /// asks again.
  void released(std::string_view key);
  /// The first of each queue asks again: the limit is another.
  void released_all();

  ReleaseFairness& fairness() { return fairness_; }

 private:
  struct Denial;
  class Waiter;
  class Queue;
  struct Entry {
    std::shared_ptr<Queue> queue;
    std::size_t waiting = 0;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  bool has_queue(std::string_view key) const;
  std::shared_ptr<TimerThread> timer();
  void join(const std::shared_ptr<Waiter>& waiter, const std::stop_token& stop);
  void ask_first(const std::shared_ptr<Waiter>& waiter);
  void left(const std::string& key);

  std::atomic<std::size_t> waiting_{0};
  ReleaseFairness fairness_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::shared_ptr<TimerThread> timer_;
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> queues_;
};

}  // namespace sluice
