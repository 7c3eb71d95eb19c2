#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "waiting/timer_thread.h"

namespace sluice {

/// A TimerThread whose clock stands still until advance(). Tasks run on a thread of its own.
class ManualTimer final : public TimerThread {
 public:
  /// Throws std::system_error if the system cannot start a thread.
  explicit ManualTimer(TimePoint start);
  ~ManualTimer() override;
  ManualTimer(const ManualTimer&) = delete;
  ManualTimer& operator=(const ManualTimer&) = delete;

  TimePoint now() const override;
  Timer at(TimePoint when, Task task) override;
  void cancel(const Timer& timer) override;
  void wait_begins() override;
  void wait_ends() override;

  /// Lets so much time pass, and runs what is due meanwhile, each task at its own instant. Returns
  /// when all of that has run. REQUIRES: time >= 0; not called by a task.
  void advance(std::chrono::nanoseconds time);

  /// Returns once so many threads wait.
  void await_waiting(std::size_t threads);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // Shared with the thread.
};

}  // namespace sluice
