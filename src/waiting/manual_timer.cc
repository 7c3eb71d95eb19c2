#include "waiting/manual_timer.h"

#include <cassert>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice {

struct ManualTimer::State {
  explicit State(TimePoint start) : now(start) {}

  bool is_due() const { return !tasks.empty() && tasks.begin()->first.when <= now; }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return is_over || is_due(); });
      if (!is_due()) break;
      Task task = std::move(tasks.extract(tasks.begin()).mapped());
      is_running = true;
      lock.unlock();
      task();
      task = nullptr;  // What it holds is let go of without the lock, too.
      lock.lock();
      is_running = false;
      changed.notify_all();
    }
    const auto left = std::exchange(tasks, {});
    lock.unlock();
  }

  std::mutex advancing;  // Held by the thread that lets time pass.
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex:
  TimePoint now;
  std::map<Timer, Task> tasks;
  std::uint64_t last_number = 0;
  std::int64_t waiting = 0;  // A wait may end before it is counted.
  bool is_running = false;   // A task.
  bool is_over = false;
};

ManualTimer::ManualTimer(TimePoint start) : state_(std::make_shared<State>(start)) {
  // Detached, since the last task may destroy the timer.
  std::thread([state = state_] { state->run(); }).detach();
}

ManualTimer::~ManualTimer() {
  const std::lock_guard lock(state_->mutex);
  state_->is_over = true;
  state_->changed.notify_all();
}

TimerThread::TimePoint ManualTimer::now() const {
  const std::lock_guard lock(state_->mutex);
  return state_->now;
}

TimerThread::Timer ManualTimer::at(TimePoint when, Task task) {
  assert(when < kEndOfTime);
  const std::lock_guard lock(state_->mutex);
  const Timer timer{when, ++state_->last_number};
  state_->tasks.emplace(timer, std::move(task));
  state_->changed.notify_all();
  return timer;
}

void ManualTimer::cancel(const Timer& timer) {
  std::map<Timer, Task>::node_type cancelled;  // Destroyed once the lock is let go of.
  const std::lock_guard lock(state_->mutex);
  cancelled = state_->tasks.extract(timer);
}

void ManualTimer::wait_begins() {
  const std::lock_guard lock(state_->mutex);
  ++state_->waiting;
  state_->changed.notify_all();
}

void ManualTimer::wait_ends() {
  const std::lock_guard lock(state_->mutex);
  --state_->waiting;
}

void ManualTimer::advance(std::chrono::nanoseconds time) {
  State& state = *state_;
  const std::lock_guard alone(state.advancing);
  std::unique_lock lock(state.mutex);
  const TimePoint end = later(state.now, time);
  for (;;) {
    state.changed.wait(lock, [&] { return !state.is_running && !state.is_due(); });
    if (state.now == end) return;
    const bool is_last = state.tasks.empty() || state.tasks.begin()->first.when > end;
    state.now = is_last ? end : state.tasks.begin()->first.when;
    state.changed.notify_all();
  }
}

void ManualTimer::await_waiting(std::size_t threads) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->waiting >= static_cast<std::int64_t>(threads); });
}

}  // namespace sluice
