#pragma once

#include <cassert>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace sluice {

/// One thread for all callers that wait: it runs tasks when they are due, one at a time, and those
/// of one instant in the order in which they came. A task does little, does not wait and throws
/// nothing.
///
/// It has no bound of its own: each waiting caller has a few timers at most, and the callers are
/// bounded where they wait: in a queue, for time they have reserved, with a permit. Thread-safe.
class TimerThread {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Task = std::function<void()>;

  /// An entry in the timer queue, with which it can be cancelled.
  struct Timer {
    TimePoint when;
    std::uint64_t number = 0;

    auto operator<=>(const Timer&) const = default;
  };

  static constexpr TimePoint kEndOfTime = TimePoint::max();

  /// The one of this process. Its thread starts with the first caller that asks for it, and ends
  /// once the last share of it has gone; no caller waits for that end, and what is due later does
  /// not run. Throws std::system_error where the system gives no thread.
  static std::shared_ptr<TimerThread> shared();

  virtual ~TimerThread() = default;

  virtual TimePoint now() const = 0;
  /// Runs the task at `when`, or soon after. REQUIRES: when < kEndOfTime.
  virtual Timer at(TimePoint when, Task task) = 0;
  /// Does not run it, if it has not begun to. O(log timers), as at().
  virtual void cancel(const Timer& timer) = 0;

  /// Runs the task as soon as those are done that are due.
  void post(Task task) { at(now(), std::move(task)); }

  /// now() + wait, at most kEndOfTime. REQUIRES: wait >= 0.
  TimePoint after(std::chrono::nanoseconds wait) const { return later(now(), wait); }
  static TimePoint later(TimePoint from, std::chrono::nanoseconds wait) {
    assert(wait.count() >= 0);
    return wait < kEndOfTime - from ? from + wait : kEndOfTime;
  }
};

}  // namespace sluice
