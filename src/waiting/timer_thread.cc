#include "waiting/timer_thread.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "core/callback_threads.h"
#include "core/fork.h"
#include "core/without_signals.h"

namespace sluice {
namespace {

/// Where a process finds its timer thread.
struct Shared {
  std::mutex mutex;
  std::shared_ptr<TimerThread> thread;  // guarded by mutex
};

}  // namespace

struct TimerThread::State {
  explicit State(std::optional<TimePoint> start)
      : is_manual(start.has_value()), manual_now(start.value_or(TimePoint())) {}

  TimePoint now() const { return is_manual ? manual_now : TimePoint::clock::now(); }
  bool is_due() const { return !tasks.empty() && tasks.begin()->first.when <= now(); }

  void run() noexcept {
    runs_callbacks = true;
    std::unique_lock lock(mutex);
    while (!is_over || is_due()) {
      if (!is_due()) {
        wait_for_task(lock);
        continue;
      }
      Task task = std::move(tasks.extract(tasks.begin()).mapped());
      is_running = true;
      lock.unlock();
      task();
      task = nullptr;  // What it holds is let go of without the lock, too.
      lock.lock();
      is_running = false;
      if (is_manual) changed.notify_all();
    }
    const auto left = std::exchange(tasks, {});
    lock.unlock();
  }

  void wait_for_task(std::unique_lock<std::mutex>& lock) {
    if (is_manual || tasks.empty()) return changed.wait(lock);
    const TimePoint when = tasks.begin()->first.when;
    changed.wait_until(lock, when);
  }

  const bool is_manual;
  std::mutex advancing;  // Held by the thread that lets time pass.
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex:
  TimePoint manual_now;
  std::map<Timer, Task> tasks;
  std::uint64_t last_number = 0;
  // Threads, of a clock that stands still: await_waiting(). A wait may end before it is counted.
  std::int64_t waiting = 0;
  bool is_running = false;  // A task.
  bool is_over = false;
};

TimerThread::TimerThread(std::optional<TimePoint> start) : state_(std::make_shared<State>(start)) {
  const WithoutSignals without_signals;
  // Detached, since the last task may destroy the timer.
  std::thread([state = state_] { state->run(); }).detach();
}

TimerThread::~TimerThread() {
  const std::lock_guard lock(state_->mutex);
  state_->is_over = true;
  state_->changed.notify_all();
}

void TimerThread::require_other_thread() {
  if (runs_callbacks) throw std::logic_error("a callback cannot wait: others wait for its thread");
}

TimerQueue::TimePoint TimerThread::now() const {
  if (!state_->is_manual) return TimePoint::clock::now();
  const std::lock_guard lock(state_->mutex);
  return state_->now();
}

TimerQueue::Timer TimerThread::add(Timer timer, Task task) {
  assert(timer.when < kEndOfTime);
  const std::lock_guard lock(state_->mutex);
  timer.number = ++state_->last_number;
  const auto place = state_->tasks.emplace(timer, std::move(task)).first;
  if (place == state_->tasks.begin()) state_->changed.notify_all();
  return timer;
}

void TimerThread::cancel(const Timer& timer) {
  std::map<Timer, Task>::node_type cancelled;  // Destroyed once the lock is let go of.
  const std::lock_guard lock(state_->mutex);
  cancelled = state_->tasks.extract(timer);
}

void TimerThread::wait_begins() {
  if (!state_->is_manual) return;
  const std::lock_guard lock(state_->mutex);
  ++state_->waiting;
  state_->changed.notify_all();
}

void TimerThread::wait_ends() {
  if (!state_->is_manual) return;
  const std::lock_guard lock(state_->mutex);
  --state_->waiting;
}

void TimerThread::advance(std::chrono::nanoseconds time) {
  State& state = *state_;
  assert(state.is_manual);
  const std::lock_guard alone(state.advancing);
  std::unique_lock lock(state.mutex);
  const TimePoint end = later(state.manual_now, time);
  for (;;) {
    state.changed.wait(lock, [&] { return !state.is_running && !state.is_due(); });
    if (state.manual_now == end) return;
    const bool is_last = state.tasks.empty() || state.tasks.begin()->first.when > end;
    state.manual_now = is_last ? end : state.tasks.begin()->first.when;
    state.changed.notify_all();
  }
}

void TimerThread::await_waiting(std::size_t threads) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->waiting >= static_cast<std::int64_t>(threads); });
}

std::shared_ptr<TimerThread> TimerThread::shared() {
  static constinit PerProcess<Shared> of_process;
  Shared& here = of_process.get();
  const std::lock_guard lock(here.mutex);
  if (!here.thread) here.thread = std::make_shared<TimerThread>();
  return here.thread;
}

std::shared_ptr<TimerThread> TimerThread::shared_or_null() {
  try {
    return shared();
  } catch (const std::system_error&) {
    return nullptr;
  }
}

}  // namespace sluice
