#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace sluice {

/// A Boost.Asio io_context, which the connections and timers of one remote store share. One thread
/// at a time runs it; which thread that is may change (see RemoteWorker).
///
/// Objects made with a context are used only by the thread that runs it, or while no thread runs
/// it.
class IoContext final {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws std::system_error where the system has no descriptor left.
  IoContext();
  IoContext(const IoContext&) = delete;
  IoContext& operator=(const IoContext&) = delete;

  /// Shared, because a name lookup that ends late holds the io_context beyond this object's life.
  const std::shared_ptr<boost::asio::io_context>& asio() const { return asio_; }

  /// Runs `task` soon on the thread that runs the context, in the order of posting. Thread-safe. A
  /// task that has not run when the context is destroyed never runs.
  void post(std::function<void()> task);

  /// Whether any Work is set: then a thread has to run the context even if no caller waits for an
  /// answer, for example while a connection is being made.
  bool has_work() const { return works_ != 0; }

  /// One reason to run the context, which its owner sets and clears: see has_work().
  class Work final {
   public:
    explicit Work(IoContext& context) : context_(context) {}
    ~Work() { set(false); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    void set(bool is_open) {
      if (is_open != is_open_) context_.works_ += is_open ? 1 : -1;
      is_open_ = is_open;
    }

   private:
    IoContext& context_;
    bool is_open_ = false;
  };

 private:
  const std::shared_ptr<boost::asio::io_context> asio_;
  int works_ = 0;
};

/// Runs a task at a set time, on the thread that runs the context.
class IoTimer final {
 public:
  using Clock = IoContext::Clock;

  /// `task` may set, cancel and destroy this timer.
  IoTimer(IoContext& context, std::function<void()> task);
  ~IoTimer() { cancel(); }
  IoTimer(const IoTimer&) = delete;
  IoTimer& operator=(const IoTimer&) = delete;

  /// Runs the task once, at `when` or soon after. Replaces the time that was set before.
  void set_at(Clock::time_point when);
  void set(Clock::duration wait) { set_at(Clock::now() + wait); }
  /// The task does not run, unless it is set again.
  void cancel();
  /// Whether the task is still to run; false while it runs.
  bool is_set() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // Held by the wait that is under way, too.
};

}  // namespace sluice
