#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "net/unique_fd.h"

namespace sluice {

/// Is told that its file descriptor is ready.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// `events`: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR. Runs on the loop's thread. A sink may destroy
  /// itself here, but no other sink: the rest of one round of events still refers to them. To
  /// destroy another, use post() or run_after(), which run between rounds.
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

  /// Runs `task` once on the loop's thread, no earlier than `wait` from now.
  void run_after(Clock::duration wait, std::function<void()> task);

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

  /// Makes run() return after the round it is in. From any thread.
  void stop();

 private:
  struct Timer {
    Clock::time_point when;
    std::uint64_t order = 0;
    std::function<void()> task;
  };

  static bool later(const Timer& a, const Timer& b);
  int wait_ms() const;
  void run_due();
  void run_posted();
  std::shared_ptr<Task> take_posted();

  UniqueFd epoll_;
  UniqueFd wake_;
  static thread_local const EventLoop* running_here_;
  bool posted_here_ = false;   // By the loop's own thread, since it last ran what was posted.
  std::vector<Timer> timers_;  // A heap: the earliest first.
  std::uint64_t timers_made_ = 0;
  std::mutex mutex_;
  std::shared_ptr<Task> first_posted_;  // Guarded by mutex_, as the next.
  Task* last_posted_ = nullptr;
  std::atomic<bool> stopping_ = false;
};

}  // namespace sluice
