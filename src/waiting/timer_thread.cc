#include "waiting/timer_thread.h"

#include <pthread.h>

#include <cassert>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "waiting/fork.h"

namespace sluice {
namespace {

/// What is to be done. Shared by the thread and by its TimerThread, so that neither has to wait for
/// the other's end.
struct TimerQueue {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex:
  std::map<TimerThread::Timer, TimerThread::Task> tasks;
  std::uint64_t last_number = 0;
  bool over = false;
};

// The thread. What is due when it is over still runs.
void run(const std::shared_ptr<TimerQueue>& queue) noexcept {
  std::unique_lock lock(queue->mutex);
  for (;;) {
    const auto next = queue->tasks.begin();
    if (next != queue->tasks.end() && next->first.when <= std::chrono::steady_clock::now()) {
      TimerThread::Task task = std::move(queue->tasks.extract(next).mapped());
      lock.unlock();
      task();
      task = nullptr;  // What it holds is let go of without the lock, too.
      lock.lock();
    } else if (queue->over) {
      break;
    } else if (next == queue->tasks.end()) {
      queue->changed.wait(lock);
    } else {
      const auto when = next->first.when;
      queue->changed.wait_until(lock, when);
    }
  }
  const auto left = std::move(queue->tasks);
  lock.unlock();
}

// Signals are the program's, on its threads.
void start_thread(const std::shared_ptr<TimerQueue>& queue) {
  struct WithoutSignals {
    WithoutSignals() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before{};
  } const without_signals;
  std::thread([queue] { run(queue); }).detach();
}

class RunningTimerThread final : public TimerThread {
 public:
  RunningTimerThread() { start_thread(queue_); }
  ~RunningTimerThread() override {
    // In a forked child there is no such thread, and another one of the parent's may hold the lock.
    if (generation_ != fork_generation()) {
      static_cast<void>(new std::shared_ptr<TimerQueue>(std::move(queue_)));
      return;
    }
    const std::lock_guard lock(queue_->mutex);
    queue_->over = true;
    queue_->changed.notify_one();
  }
  RunningTimerThread(const RunningTimerThread&) = delete;
  RunningTimerThread& operator=(const RunningTimerThread&) = delete;

  TimePoint now() const override { return std::chrono::steady_clock::now(); }

  Timer at(TimePoint when, Task task) override {
    assert(when < kEndOfTime);
    const std::lock_guard lock(queue_->mutex);
    const Timer timer{when, ++queue_->last_number};
    const auto place = queue_->tasks.emplace(timer, std::move(task)).first;
    if (place == queue_->tasks.begin()) queue_->changed.notify_one();
    return timer;
  }

  void cancel(const Timer& timer) override {
    std::map<Timer, Task>::node_type cancelled;  // Destroyed once the lock is let go of.
    const std::lock_guard lock(queue_->mutex);
    cancelled = queue_->tasks.extract(timer);
  }

 private:
  const std::uint64_t generation_ = fork_generation();
  std::shared_ptr<TimerQueue> queue_ = std::make_shared<TimerQueue>();
};

/// Where a process finds its timer thread.
struct Shared {
  std::mutex mutex;
  std::weak_ptr<TimerThread> thread;  // guarded by mutex
};

}  // namespace

std::shared_ptr<TimerThread> TimerThread::shared() {
  static constinit PerProcess<Shared> of_process;
  Shared& here = of_process.get();
  const std::lock_guard lock(here.mutex);
  auto thread = here.thread.lock();
  if (!thread) {
    thread = std::make_shared<RunningTimerThread>();
    here.thread = thread;
  }
  return thread;
}

}  // namespace sluice
