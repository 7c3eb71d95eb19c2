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

#include "core/text_hash.h"
#include "waiting/release_fairness.h"
#include "waiting/requests.h"
#include "waiting/returns.h"
#include "waiting/timer_thread.h"
#include "waiting/waiting_callers.h"

namespace sluice {

/// The queues in which callers of this process wait for the keys of one space: one queue for each
/// key and limit that have waiting callers. (The limits of one space have one name, and may have
/// different numbers; a caller of a larger limit does not wait behind one of a smaller.) All
/// limiters over the space share them (Space::attachment()). The timer thread runs the queues; the
/// functions below are thread-safe.
///
/// A queue is first come, first served. Only the first caller of a queue asks the store, one
/// request at a time. It asks when it comes to an empty queue. When it has left, the next one is
/// the first, and asks: for units at once, since it may want less; for a permit only if an answer
/// of the store has ended the other's wait, or comes after the other has left. The first asks again
/// - when a permit or units were returned in this process, the key was reset or its limit was
///   changed in this process, or the store reports a released permit (Store::watch());
/// - when the `retry_after` of its denial is over;
/// - for units of a store that other processes share, also kPauseForUnits after it asked last:
///   another process may have given some back, reset the key or ended a block;
/// - for a permit that other processes share, also earlier: after growing pauses (AskPauses).
///
/// A caller leaves the queue when it is granted, when it cannot be admitted within its timeout,
/// when its timeout is over, when it is stopped, or when a key of its claims is blocked. If the
/// store grants a caller that has left already, the grant is returned to the store.
///
/// Within a queue no caller overtakes another: a caller that arrives later asks the store directly
/// only if the queue is empty, or if its cost can never be admitted. A caller with several claims
/// goes to the end of each queue that it comes to, so callers with one claim may overtake it
/// without end; and when it is the first in one queue, it may overtake those in the queues of its
/// other claims.
///
/// Between processes, a released permit goes to the process that asks first; ReleaseFairness keeps
/// a process from always being the first. Units of a window that processes share have no such rule:
/// a process with a longer round trip to the store may get none while callers of others wait.
///
/// A caller that wants many units of a window makes those behind it wait until its units fit;
/// otherwise smaller requests could overtake it for ever.
class WaitQueues final {
 public:
  /// The most callers that wait in the queues of one space, and the most that wait for units that
  /// they have reserved; one more is denied at once.
  static constexpr std::size_t kMostWaiting = 100'000;

  /// Called once, with the outcome: on the timer thread, or within acquire() by its caller.
  using Done = std::function<void(const AcquireOutcome&)>;

  /// `timer` has the clock that a test drives. Without one, callers wait by the clock of the
  /// process, and the queues use TimerThread::shared(). `most_waiting` is another bound in tests.
  explicit WaitQueues(std::shared_ptr<TimerQueue> timer = nullptr,
                      std::size_t most_waiting = kMostWaiting)
      : manual_timer_(std::move(timer)), most_waiting_(most_waiting) {}

  /// The queues of a space.
  static std::shared_ptr<WaitQueues> of(Space& space) { return space.attachment<WaitQueues>(); }

  /// The time by which the callers wait.
  TimerQueue::TimePoint now() const {
    return manual_timer_ ? manual_timer_->now() : TimerQueue::TimePoint::clock::now();
  }
  /// The timer that has this clock. Throws std::system_error if the system cannot start its thread.
  std::shared_ptr<TimerQueue> timer() const {
    return manual_timer_ ? manual_timer_ : TimerThread::shared();
  }

  /// Whether no caller waits for this key under a limit of these numbers: then a new caller may ask
  /// the store directly. If no caller waits for any key, this reads one atomic number.
  bool is_empty(std::string_view key, const Limit& limit) {
    return waiting_.load(std::memory_order_acquire) == 0 || !has_queue(key, limit);
  }

  /// The number of waiting callers, for all keys.
  std::size_t waiting() const { return waiting_.load(std::memory_order_acquire); }

  // Functions that acquire. The caller waits in the queues of the claims of its request: first in
  // the one that the request names; when it is the first there and another claim denies for
  // longest, it goes to the queue of that one. Once it has reserved units that come later, it waits
  // for them, in no queue. `stop` ends the wait early.

  /// Waits without blocking, and calls `done`. `asked` is the outcome, if the caller has just asked
  /// the store directly: if it was denied, it waits first for the claim that binds; if it was
  /// granted units that come later, it waits for them. Throws std::system_error if the system
  /// cannot start the timer thread: then it has taken nothing.
  static void wait(AcquireRequest request, const std::optional<AcquireOutcome>& asked,
                   const std::stop_token& stop, const Done& done);

  /// Acquires without blocking: asks the store directly, unless other callers of this process wait
  /// for one of its keys, or this process leaves the next permit to other processes
  /// (ReleaseFairness); and waits in the queue if it is denied. If the store answers at once and
  /// the caller need not wait, `done` is called within this call. Throws nothing: an exception
  /// becomes AcquireOutcome::error.
  static void acquire(AcquireRequest request, const std::stop_token& stop, const Done& done);

  /// The same, but asks on the calling thread, and blocks it until the outcome is known. Rethrows
  /// AcquireOutcome::error.
  static AcquireOutcome acquire_blocking(AcquireRequest request, const std::stop_token& stop);

  /// A request that replaces what was taken by `actual` units: refunds the difference to the giver,
  /// or charges it to the store. Units that the store does not count any more, or has not recorded,
  /// are not refunded. Its decision is that of a peek afterwards. A permit is released. `limit` is
  /// the one that granted it, or Taken::settled_by(). The request refers to `taken`.
  static Request settling(const Taken& taken, const BoundLimit& limit, std::int64_t actual);

  /// Returns what was granted to a caller that no longer wants it: refunds each claim what it still
  /// counts (nothing if the key was reset meanwhile), or releases the permit; the first callers of
  /// its queues ask again. Then calls `then`, with the answer to the last return.
  static void return_granted(const AcquireRequest& request, const AcquireOutcome& granted,
                             const Returned& then);

  /// Called when a permit or units of the key were returned, or the key was reset: the first caller
  /// of each of its queues asks again.
  void released(std::string_view key) const {
    if (waiting() > 0) callers_.returned(key);
  }

  ReleaseFairness& fairness() { return fairness_; }
  /// The queues, and the callers that wait in no queue, or in one with several claims.
  WaitingCallers& callers() { return callers_; }

 private:
  class Waiter;
  class Queue;
  /// By key; of one key, one for the limits of equal numbers.
  using Queues =
      std::unordered_multimap<std::string, std::shared_ptr<Queue>, TextHash, std::equal_to<>>;

  Queues::iterator find_queue(std::string_view key, const Limit& limit);
  bool has_queue(std::string_view key, const Limit& limit);
  static void join(const std::shared_ptr<Waiter>& waiter, const std::stop_token& stop);
  static std::shared_ptr<TimerQueue> timer_for(const AcquireRequest& request,
                                               const std::optional<AcquireOutcome>& asked,
                                               bool blocks);
  static void ask_first(const std::shared_ptr<Waiter>& waiter);
  void on_left(const std::string& key, const Queue& queue);

  const std::shared_ptr<TimerQueue> manual_timer_;
  const std::size_t most_waiting_;
  std::atomic<std::size_t> waiting_{0};
  ReleaseFairness fairness_;
  WaitingCallers callers_;
  std::mutex mutex_;
  // Guarded by mutex_:
  Queues queues_;
};

}  // namespace sluice
