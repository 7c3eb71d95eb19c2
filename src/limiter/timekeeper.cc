#include "limiter/timekeeper.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "core/instant.h"

namespace sluice {
namespace {

using TimePoint = Timekeeper::TimePoint;

/// What is to be done. Shared by the thread and by those who enter something, so that neither has
/// to wait for the other's end.
struct Agenda {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex:
  std::deque<Timekeeper::Task> posted;
  std::map<Timekeeper::Timer, Timekeeper::Task> timers;
  std::uint64_t last_number = 0;
  bool over = false;
};

// With the lock held; it is let go of while the task runs and while it is destroyed.
void run(std::unique_lock<std::mutex>& lock, Timekeeper::Task task) {
  lock.unlock();
  task();
  task = nullptr;
  lock.lock();
}

// The thread. What was posted runs first, as much as was there: timers wait for no more than that.
void keep_time(const std::shared_ptr<Agenda>& agenda) noexcept {
  std::unique_lock lock(agenda->mutex);
  for (;;) {
    for (std::size_t left = agenda->posted.size(); left > 0; --left) {
      Timekeeper::Task task = std::move(agenda->posted.front());
      agenda->posted.pop_front();
      run(lock, std::move(task));
    }
    while (!agenda->timers.empty() &&
           agenda->timers.begin()->first.when <= std::chrono::steady_clock::now()) {
      run(lock, std::move(agenda->timers.extract(agenda->timers.begin()).mapped()));
      if (!agenda->posted.empty()) break;
    }
    if (!agenda->posted.empty()) continue;
    if (agenda->over) break;
    if (agenda->timers.empty()) {
      agenda->changed.wait(lock);
    } else {
      const TimePoint next = agenda->timers.begin()->first.when;
      agenda->changed.wait_until(lock, next);
    }
  }
  const auto left = std::move(agenda->timers);
  lock.unlock();
}

// Signals are the program's, on its threads.
void start_thread(const std::shared_ptr<Agenda>& agenda) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([agenda] { keep_time(agenda); }).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

class TimekeeperThread final : public Timekeeper {
 public:
  TimekeeperThread() { start_thread(agenda_); }
  ~TimekeeperThread() override {
    // In a forked child there is no such thread, and the lock may be held by nobody who is there.
    if (generation_ != fork_generation()) {
      static_cast<void>(new std::shared_ptr<Agenda>(std::move(agenda_)));
      return;
    }
    const std::lock_guard lock(agenda_->mutex);
    agenda_->over = true;
    agenda_->changed.notify_one();
  }
  TimekeeperThread(const TimekeeperThread&) = delete;
  TimekeeperThread& operator=(const TimekeeperThread&) = delete;

  TimePoint now() const override { return std::chrono::steady_clock::now(); }

  TimePoint now_cheaply() const override { return steady_now_cheaply(); }

  void post(Task task) override {
    const std::lock_guard lock(agenda_->mutex);
    agenda_->posted.push_back(std::move(task));
    if (agenda_->posted.size() == 1) agenda_->changed.notify_one();
  }

  Timer at(TimePoint when, Task task) override {
    const std::lock_guard lock(agenda_->mutex);
    const Timer timer{when, ++agenda_->last_number};
    const auto place = agenda_->timers.emplace(timer, std::move(task)).first;
    if (place == agenda_->timers.begin()) agenda_->changed.notify_one();
    return timer;
  }

  void cancel(const Timer& timer) override {
    std::map<Timer, Task>::node_type crossed_out;  // Goes once the lock is let go of.
    const std::lock_guard lock(agenda_->mutex);
    crossed_out = agenda_->timers.extract(timer);
  }

 private:
  const std::uint64_t generation_ = fork_generation();
  std::shared_ptr<Agenda> agenda_ = std::make_shared<Agenda>();
};

/// Where this process finds its timekeeper. A child of fork() has a new one: the lock may be held
/// in the old one. Never destroyed: other static objects may be, later.
struct Registry {
  std::mutex mutex;
  std::weak_ptr<Timekeeper> timekeeper;  // guarded by mutex
  const Registry* parent = nullptr;      // that of the process it was forked from
};

constinit std::atomic<std::uint64_t> generation{0};
constinit std::atomic<Registry*> own_registry{nullptr};

Registry& registry() {
  Registry* here = own_registry.load(std::memory_order_acquire);
  if (here == nullptr) {
    auto fresh = std::make_unique<Registry>();
    if (own_registry.compare_exchange_strong(here, fresh.get())) here = fresh.release();
  }
  return *here;
}

void begin_as_a_child() {
  auto* const fresh = new Registry;
  fresh->parent = &registry();
  own_registry.store(fresh, std::memory_order_release);
  generation.fetch_add(1, std::memory_order_relaxed);
}

// Before main(), so that no fork() is missed.
[[maybe_unused]] const bool is_told = ::pthread_atfork(nullptr, nullptr, begin_as_a_child) == 0;

}  // namespace

std::uint64_t fork_generation() {
  return generation.load(std::memory_order_relaxed);
}

std::shared_ptr<Timekeeper> Timekeeper::shared() {
  Registry& here = registry();
  const std::lock_guard lock(here.mutex);
  auto timekeeper = here.timekeeper.lock();
  if (!timekeeper) {
    timekeeper = std::make_shared<TimekeeperThread>();
    here.timekeeper = timekeeper;
  }
  return timekeeper;
}

}  // namespace sluice
