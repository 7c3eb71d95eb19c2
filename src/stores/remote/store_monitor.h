#pragma once

#include <atomic>
#include <boost/circular_buffer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/health.h"

namespace sluice {

/// The state of one connection to a server, which its ServerHealth keeps.
struct ServerState {
  enum Now : std::uint8_t {
    kNew,     ///< Connecting for the first time.
    kUp,      ///< Connected.
    kLost,    ///< Connecting again; requests wait for it.
    kBroken,  ///< No request waits for it.
  };
  Now now = kNew;
  /// Why the last connection, or attempt at one, has failed.
  std::string down_why;
};

/// Collects the state of a store's servers and its round trips, from which any thread can read the
/// StoreHealth.
///
/// add_to() is thread-safe; all other members are called by the thread that leads the RemoteWorker,
/// or while there is none.
class StoreMonitor final {
 public:
  using Clock = std::chrono::steady_clock;

  /// So many successive late replies are an event (StoreEvent), and so many in time end it.
  static constexpr int kInARow = 8;
  /// A clock that is behind by more than this is an event (kClock).
  static constexpr std::chrono::seconds kToleratedLag{1};
  /// A thread that looks later than this after a deadline was late itself.
  static constexpr std::chrono::milliseconds kLate{1};

  /// How much of what a server says an error quotes.
  static constexpr std::size_t kMostQuoted = 256;

  static constexpr std::string_view kOwnClock = "this process's clock";

  explicit StoreMonitor(std::chrono::nanoseconds deadline) : deadline_(deadline) {}

  /// The store uses this server from now on, and is about to connect to it. Called again when
  /// requests wait for it no longer: of several such servers, that of the last call is told.
  void add(const ServerState& server);
  /// A server's state has changed.
  void update_state();
  /// The store does not use this server any more.
  void forget(const ServerState& server);
  /// Why the store cannot be used although its servers are connected; empty if it can be used
  /// again.
  void set_obstacle(std::string_view why);

  /// This thread has read all replies that had arrived at `now`.
  void on_all_read(Clock::time_point now) { all_read_at_ = now; }
  /// A reply to what was sent at `sent` was read at `now`.
  void on_reply(Clock::time_point sent, Clock::time_point now);
  /// An answer shows that a clock, "this process's clock" or that of a server, is behind by `lag`.
  void on_clock(std::string_view whose, std::chrono::nanoseconds lag) {
    if (lag > kToleratedLag) [[unlikely]]
      note_lag(whose, lag);
  }
  /// A server has refused a request with an error: "redis 10.0.0.7:6379: OOM ...".
  void on_refused(std::string_view refusal) {
    const std::lock_guard lock(mutex_);
    ++told_.refused;
    told_.refusal = refusal.substr(0, kMostQuoted);
  }
  /// A request was answered.
  void count_answer() { answers_.fetch_add(1, std::memory_order_relaxed); }

  /// A request was not answered in time. `is_late_here`: this process looked for the reply more
  /// than kLate after the deadline, since it had got no processor time, and there was none even
  /// then. Otherwise it looked when the deadline passed: the server was late.
  void count_late(bool is_late_here) {
    const std::lock_guard lock(mutex_);
    ++(is_late_here ? told_.late_here : told_.late_server);
  }

  /// From any thread.
  void add_to(StoreHealth& health) const;

 private:
  using State = StoreHealth::State;
  static constexpr std::size_t kKeptReplies = 1024;

  void note_late(std::chrono::nanoseconds round_trip);
  void note_lag(std::string_view whose, std::chrono::nanoseconds lag);

  const std::chrono::nanoseconds deadline_;
  std::atomic<std::uint64_t> answers_{0};
  Clock::time_point all_read_at_;
  std::vector<const ServerState*> servers_;
  std::string obstacle_;

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  boost::circular_buffer<std::chrono::nanoseconds> round_trips_{kKeptReplies};  // The last ones.
  std::chrono::nanoseconds longest_{0};  // Of the late replies in a row.
  int late_in_a_row_ = 0;
  int in_time_in_a_row_ = 0;
  bool is_late_ = false;
  StoreHealth told_;
};

}  // namespace sluice
