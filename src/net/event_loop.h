#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "net/unique_fd.h"

namespace sluice {

class Timer;

/// Is told that its file descriptor is ready.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// `events`: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR. Runs on the loop's thread. A sink may destroy
  /// itself here, but no other sink: the rest of one round of events still refers to them. To
  /// destroy another, use post() or a Timer, which run between rounds.
  virtual void on_events(std::uint32_t events) = 0;
};

/// Work for a loop's thread that can be posted again and again: no memory is taken for it.
class Task {
 public:
  virtual ~Task() = default;
  /// On the loop's thread, between rounds of events.
  virtual void run() = 0;

 private:
  friend class EventLoop;
  std::atomic<bool> posted_ = false;
  std::shared_ptr<Task> next_;  // While posted: the one that was posted next.
};

/// One thread's level-triggered epoll loop. A ready socket costs its read and its write and a share
/// of one epoll_wait: nothing is armed again per request, and nothing is read to learn that there
/// is nothing to read.
///
/// All members except post() and stop() belong to the thread that calls run() (or, before run(), to
/// the thread that made the loop).
class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws std::system_error where the system has no descriptor left.
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Watches `fd` for `events` until it is removed or closed. False, with errno set, where the
  /// system refuses.
  bool add(int fd, std::uint32_t events, EventSink& sink);
  /// May be called from any thread.
  void modify(int fd, std::uint32_t events, EventSink& sink);
  void remove(int fd);

  /// Runs `task` on the loop's thread, soon, in the order of posting. From any thread. One that is
  /// posted after the loop has ended never runs, one that is posted again before it runs does so
  /// once. The loop is woken by the first of those that it then runs together, unless that comes
  /// from its own thread, which looks before it sleeps.
  /// REQUIRES: no task is posted to two loops.
  void post(std::shared_ptr<Task> task) noexcept;
  void post(std::function<void()> task);

  /// Serves events until stop().
  void run();

  /// Whether the calling thread is the one in run().
  bool is_here() const { return running_here_ == this; }

  /// Makes run() return after the round in which what was posted before has run. From any thread.
  void stop() noexcept { post(stop_); }

 private:
  friend class Timer;
  struct Sooner {
    bool operator()(const Timer* a, const Timer* b) const;
  };
  using Timers = std::multiset<Timer*, Sooner>;

  int wait_ms() const;
  void run_due();
  void run_posted();
  std::shared_ptr<Task> take_posted();

  UniqueFd epoll_;
  UniqueFd wake_;
  static thread_local const EventLoop* running_here_;
  bool posted_here_ = false;  // By the loop's own thread, since it last ran what was posted.
  Timers timers_;             // Those that are set; of equal times in the order of setting.
  std::mutex mutex_;
  std::shared_ptr<Task> first_posted_;  // Guarded by mutex_, as the next.
  Task* last_posted_ = nullptr;
  bool stopping_ = false;
  const std::shared_ptr<Task> stop_;
};

/// Runs its task on a loop's thread once its time has come. What memory that takes is taken when it
/// is made: setting it takes none, so that what has to be done later can always be left to it.
/// Timers that are due run in the order of their times, those of one time in the order of setting.
///
/// All members belong to the loop's thread, as the loop's do. One may outlive its loop, and is not
/// to be set any more then.
class Timer final {
 public:
  using Clock = EventLoop::Clock;

  /// `task` may set, cancel and destroy this and other timers, and throws nothing.
  Timer(EventLoop& loop, std::function<void()> task);
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Runs the task once, no earlier than then, and not when it was set to before. O(log timers).
  void set_at(Clock::time_point when) noexcept;
  void set(Clock::duration wait) noexcept { set_at(Clock::now() + wait); }
  /// Does not run it.
  void cancel() noexcept;

  /// False from before its task runs.
  bool is_set() const { return place_.empty(); }
  /// When it is to run; the end of time where it is not set.
  Clock::time_point due() const { return is_set() ? when_ : Clock::time_point::max(); }

 private:
  friend class EventLoop;

  EventLoop& loop_;
  const std::shared_ptr<const std::function<void()>> task_;  // Outlives a timer that it destroys.
  Clock::time_point when_;
  EventLoop::Timers::node_type place_;  // Among the loop's timers, to which it goes while set.
  EventLoop::Timers::iterator at_;      // While set.
};

}  // namespace sluice
