#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include "waiting/timer_thread.h"

namespace sluice {

/// A queue for tests: no thread, and a clock that stands still until it is told to go on.
class ManualTimerQueue final : public TimerQueue {
 public:
  TimePoint now() const override { return now_; }

  void cancel(const Timer& timer) override { timers_.erase(timer); }

  /// Runs all tasks that are due now.
  void run() {
    while (!timers_.empty() && timers_.begin()->first.when <= now_) {
      timers_.extract(timers_.begin()).mapped()();
    }
  }

  /// Advances the clock by `time`, and runs each task at its instant.
  void pass(std::chrono::nanoseconds time) {
    run();
    const TimePoint end = now_ + time;
    while (!timers_.empty() && timers_.begin()->first.when <= end) {
      now_ = std::max(now_, timers_.begin()->first.when);
      run();
    }
    now_ = end;
    run();
  }

  /// Advances the clock by `time` without running any task, as if the process were stopped.
  void freeze(std::chrono::nanoseconds time) { now_ += time; }

  /// How many tasks are left.
  std::size_t timers() const { return timers_.size(); }

 private:
  Timer add(Timer timer, Task task) override {
    timer.number = ++last_number_;
    timers_.emplace(timer, std::move(task));
    return timer;
  }

  TimePoint now_{std::chrono::hours(1)};
  std::map<Timer, Task> timers_;
  std::uint64_t last_number_ = 0;
};

}  // namespace sluice
