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

/// It and its thread live as long as the process: what waits comes and goes, often from call to
/// call. In a forked child there is no such thread; the child begins with another one.
class RunningTimerThread final : public TimerThread {
 public:
  RunningTimerThread() { start(); }
  RunningTimerThread(const RunningTimerThread&) = delete;
  RunningTimerThread& operator=(const RunningTimerThread&) = delete;

  TimePoint now() const override { return std::chrono::steady_clock::now(); }

  Timer at(TimePoint when, Task task) override {
    assert(when < kEndOfTime);
    const std::lock_guard lock(mutex_);
    const Timer timer{when, ++last_number_};
    const auto place = tasks_.emplace(timer, std::move(task)).first;
    if (place == tasks_.begin()) changed_.notify_one();
    return timer;
  }

  void cancel(const Timer& timer) override {
    std::map<Timer, Task>::node_type cancelled;  // Destroyed once the lock is let go of.
    const std::lock_guard lock(mutex_);
    cancelled = tasks_.extract(timer);
  }

 private:
  // Signals are the program's, on its threads.
  void start() {
    struct WithoutSignals {
      WithoutSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
      }
      ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
      sigset_t before{};
    } const without_signals;
    std::thread([this] { run(); }).detach();
  }

  [[noreturn]] void run() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto next = tasks_.begin();
      if (next == tasks_.end()) {
        changed_.wait(lock);
        continue;
      }
      const auto when = next->first.when;
      if (when > now()) {
        changed_.wait_until(lock, when);
        continue;
      }
      Task task = std::move(tasks_.extract(next).mapped());
      lock.unlock();
      task();
      task = nullptr;  // What it holds is let go of without the lock, too.
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::map<Timer, Task> tasks_;
  std::uint64_t last_number_ = 0;
};

/// Where a process finds its timer thread.
struct Shared {
  std::mutex mutex;
  std::shared_ptr<TimerThread> thread;  // guarded by mutex
};

}  // namespace

std::shared_ptr<TimerThread> TimerThread::shared() {
  static constinit PerProcess<Shared> of_process;
  Shared& here = of_process.get();
  const std::lock_guard lock(here.mutex);
  if (!here.thread) here.thread = std::make_shared<RunningTimerThread>();
  return here.thread;
}

}  // namespace sluice
