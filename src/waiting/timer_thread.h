#pragma once

#include <cassert>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

namespace sluice {

/// Tasks that run at their times, on one thread and one at a time; those of the same instant run in
/// the order in which they were added, but for those of at_end_of(). An interface: tests have a
/// queue without a thread. All waiting callers of a process share it, so a task must be short, must
/// not block and must not throw.
///
/// The number of tasks has no bound of its own. Each waiting caller, reservation and held permit
/// has a few at most, and those are bounded elsewhere. Thread-safe.
class TimerQueue {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Task = std::function<void()>;

  /// A task in the queue, with which it can be cancelled.
  struct Timer {
    TimePoint when;
    bool is_last = false;  // Of all tasks of its instant.
    std::uint64_t number = 0;

    auto operator<=>(const Timer&) const = default;
  };

  static constexpr TimePoint kEndOfTime = TimePoint::max();
  /// The latest for which a timer can be set.
  static constexpr TimePoint kLastInstant = kEndOfTime - std::chrono::nanoseconds(1);

  virtual ~TimerQueue() = default;

  virtual TimePoint now() const = 0;
  /// Runs the task at `when`, or soon after. REQUIRES: when < kEndOfTime.
  Timer at(TimePoint when, Task task) { return add({.when = when}, std::move(task)); }
  /// The same, but after the other tasks of this instant, also those that they add for it.
  Timer at_end_of(TimePoint when, Task task) {
    return add({.when = when, .is_last = true}, std::move(task));
  }
  /// Removes the task, unless it has begun to run. Takes O(log timers), as at() does.
  virtual void cancel(const Timer& timer) = 0;

  /// Called by a thread that begins, or ends, to wait for a task. The clock of a test counts these
  /// threads (ManualClock::await_waiting()); others ignore it.
  virtual void wait_begins() {}
  virtual void wait_ends() {}

  /// Runs the task after those that are due now, but before those of at_end_of().
  void post(Task task) { at(now(), std::move(task)); }

  /// now() + wait, at most kEndOfTime. REQUIRES: wait >= 0.
  TimePoint after(std::chrono::nanoseconds wait) const { return later(now(), wait); }
  static TimePoint later(TimePoint from, std::chrono::nanoseconds wait) {
    assert(wait.count() >= 0);
    return wait < kEndOfTime - from ? from + wait : kEndOfTime;
  }

 private:
  /// Adds the task under this timer. Returns the timer with its number.
  virtual Timer add(Timer timer, Task task) = 0;
};

/// The timer of a process, or of a ManualClock: the queue and the thread that runs its tasks. Its
/// clock is that of the process, or one that stands still until advance().
class TimerThread final : public TimerQueue {
 public:
  /// `start` is the time at which its clock stands still; without it, the clock is that of the
  /// process. Throws std::system_error if the system cannot start a thread.
  explicit TimerThread(std::optional<TimePoint> start = std::nullopt);
  ~TimerThread() override;
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

  /// That of this process. The thread starts when it is first asked for, and ends with the process;
  /// tasks that are not due by then do not run. Throws std::system_error if the system cannot start
  /// a thread.
  static std::shared_ptr<TimerThread> shared();
  /// The same, but null if the system cannot start a thread.
  static std::shared_ptr<TimerThread> shared_or_null();

  /// Throws std::logic_error on a thread that runs callbacks: one that waits for a timer would wait
  /// for itself.
  static void require_other_thread();

  TimePoint now() const override;
  void cancel(const Timer& timer) override;
  void wait_begins() override;
  void wait_ends() override;

  // Of a clock that stands still:

  /// Lets so much time pass, and runs what is due meanwhile, each task at its own instant. Returns
  /// when all of that has run. REQUIRES: time >= 0; not called by a task.
  void advance(std::chrono::nanoseconds time);
  /// Returns once so many threads wait.
  void await_waiting(std::size_t threads);

 private:
  Timer add(Timer timer, Task task) override;

  struct State;
  const std::shared_ptr<State> state_;  // Shared with the thread.
};

/// Blocks the calling thread until the function that `begin` is given was called, on the timer
/// thread, and returns what it was called with. Throws as require_other_thread().
template <class Result, class Begin>
Result block_until_called(const std::shared_ptr<TimerQueue>& timer, const Begin& begin) {
  TimerThread::require_other_thread();
  const auto result = std::make_shared<std::promise<Result>>();
  begin([timer, result](const Result& given) {
    timer->wait_ends();
    result->set_value(given);
  });
  timer->wait_begins();
  return result->get_future().get();
}

}  // namespace sluice
