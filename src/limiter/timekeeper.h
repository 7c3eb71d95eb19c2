#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>

namespace sluice {

/// How often this process is the child of a fork() that a parent of its own made: another number
/// than in the process it comes from. What threads kept there is nobody's here. Never blocks.
std::uint64_t fork_generation();

/// Keeps the time for all who wait: one thread, on which what was posted runs in order, and timers
/// when they are due, one at a time. What runs there does little, does not wait and throws nothing.
///
/// It has no bound of its own: everybody who waits has a few entries at most, and those who wait
/// are bounded: in a line, for time they have reserved, with a permit. Thread-safe.
class Timekeeper {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Task = std::function<void()>;

  /// An entry in its agenda, to be crossed out.
  struct Timer {
    TimePoint when;
    std::uint64_t number = 0;

    auto operator<=>(const Timer&) const = default;
  };

  static constexpr TimePoint kEndOfTime = TimePoint::max();
  static constexpr std::chrono::milliseconds kCheapStep{10};

  /// The one of this process. Its thread starts with the first who asks for it and ends, without
  /// anybody waiting for it, once the last share of it has gone; what is still due then does not
  /// run. Throws std::system_error where the system gives no thread.
  static std::shared_ptr<Timekeeper> shared();

  virtual ~Timekeeper() = default;

  virtual TimePoint now() const = 0;
  /// At most kCheapStep before now(), for a fourth of its cost.
  virtual TimePoint now_cheaply() const { return now(); }
  virtual void post(Task task) = 0;
  /// Runs the task at `when`, or soon after. REQUIRES: when < kEndOfTime.
  virtual Timer at(TimePoint when, Task task) = 0;
  /// Does not run it, if it has not begun to. O(log timers), as at().
  virtual void cancel(const Timer& timer) = 0;

  /// now() + wait, at most kEndOfTime. REQUIRES: wait >= 0.
  TimePoint after(std::chrono::nanoseconds wait) const { return later(now(), wait); }
  static TimePoint later(TimePoint from, std::chrono::nanoseconds wait) {
    return wait < kEndOfTime - from ? from + wait : kEndOfTime;
  }
};

}  // namespace sluice
