#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace sluice {

/// A Boost.Asio io_context, which connections and timers share. One thread at a time runs it; it
/// may be another one later.
///
/// What is made with a context belongs to the thread that runs it, or may be used while none does.
class IoContext final {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws std::system_error where the system has no descriptor left.
  IoContext();
  ~IoContext();
  IoContext(const IoContext&) = delete;
  IoContext& operator=(const IoContext&) = delete;

  /// Lives as long as it is held: a name lookup that ends late outlives this object.
  const std::shared_ptr<boost::asio::io_context>& asio() const { return asio_; }

  /// Runs `task` on the thread that runs the context, soon, in the order of posting. From any
  /// thread. A task that was not run when the context is destroyed never runs.
  void post(std::function<void()> task);

  /// Whether a thread has to go on running the context, though no caller waits for an answer.
  bool has_work() const { return works_ != 0; }

  /// A part of what has_work() tells.
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

/// Runs its task on the context's thread once its time has come.
class IoTimer final {
 public:
  using Clock = IoContext::Clock;

  /// `task` may set, cancel and destroy this timer.
  IoTimer(IoContext& context, std::function<void()> task);
  ~IoTimer() { cancel(); }
  IoTimer(const IoTimer&) = delete;
  IoTimer& operator=(const IoTimer&) = delete;

  /// Runs the task once, no earlier than then, and not when it was set to before.
  void set_at(Clock::time_point when);
  void set(Clock::duration wait) { set_at(Clock::now() + wait); }
  /// Does not run it.
  void cancel();
  /// False from before its task runs.
  bool is_set() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // Held by the wait that is under way, too.
};

}  // namespace sluice
