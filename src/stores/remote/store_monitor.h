#pragma once

#include <algorithm>
#include <atomic>
#include <boost/circular_buffer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
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
  void add(const ServerState& server) {
    std::erase(servers_, &server);
    servers_.push_back(&server);
  }
  /// A server's state has changed. While all servers are between two connections, or one has not
  /// been connected yet, the last state stays.
  void update_state() {
    std::string_view why = obstacle_;
    bool are_known = !servers_.empty();
    for (const ServerState* server : servers_) {
      are_known = are_known && server->now != ServerState::kNew;
      if (server->now == ServerState::kBroken) why = server->down_why;
    }
    if (why.empty() && !are_known) return;
    const bool is_down = !why.empty();
    if (!is_down && up_) up_();
    const std::lock_guard lock(mutex_);
    if (is_down) told_.reason = why;
    const State before = std::exchange(told_.state, is_down ? State::kDown : State::kUp);
    if (before == told_.state) return;
    told_.since = std::chrono::system_clock::now();
    if (is_down) ++told_.times_lost;
  }
  /// Sets what is called when a server's state has changed and no server is lost, so that the store
  /// can be used. It is called on the thread that leads the worker.
  void on_up(std::function<void()> up) { up_ = std::move(up); }
  /// The store does not use this server any more.
  void forget(const ServerState& server) {
    std::erase(servers_, &server);
    update_state();
  }
  /// Why the store cannot be used although its servers are connected; empty if it can be used
  /// again.
  void set_obstacle(std::string_view why) {
    if (obstacle_ == why) return;
    obstacle_ = why;
    update_state();
  }

  /// This thread has read all replies that had arrived at `now`.
  void on_all_read(Clock::time_point now) { all_read_at_ = now; }
  /// A reply to what was sent at `sent` was read at `now`.
  void on_reply(Clock::time_point sent, Clock::time_point now) {
    const std::chrono::nanoseconds round_trip = now - sent;
    const std::lock_guard lock(mutex_);
    round_trips_.push_back(round_trip);
    if (round_trip > deadline_) {
      // If this thread has not looked since the deadline, the reply may have been there in time.
      if (all_read_at_ + kLate >= sent + deadline_) note_late(round_trip);
      return;
    }
    late_in_a_row_ = 0;
    longest_ = {};
    if (is_late_ && ++in_time_in_a_row_ == kInARow) is_late_ = false;
  }
  /// An answer shows that a clock, "this process's clock" or that of a server, is behind by `lag`.
  void on_clock(std::string_view whose, std::chrono::nanoseconds lag) {
    if (lag <= kToleratedLag) [[likely]]
      return;
    const std::lock_guard lock(mutex_);
    ++told_.clock_behind;
    told_.late_clock = whose;
    told_.clock_lag = lag;
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
  void add_to(StoreHealth& health) const {
    std::vector<std::chrono::nanoseconds> sorted;
    {
      const std::lock_guard lock(mutex_);
      health = told_;
      sorted.assign(round_trips_.begin(), round_trips_.end());
    }
    health.deadline = deadline_;
    health.answered_by_store = answers_.load(std::memory_order_relaxed);
    if (sorted.empty()) return;
    std::ranges::sort(sorted);
    health.round_trip_p50 = sorted[sorted.size() / 2];
    health.round_trip_p99 = sorted[sorted.size() * 99 / 100];
  }

 private:
  using State = StoreHealth::State;
  static constexpr std::size_t kKeptReplies = 1024;

  /// REQUIRES: mutex_ is held.
  void note_late(std::chrono::nanoseconds round_trip) {
    in_time_in_a_row_ = 0;
    longest_ = std::max(longest_, round_trip);
    ++told_.late_replies;
    const bool begins = ++late_in_a_row_ == kInARow && !std::exchange(is_late_, true);
    if (!begins) return;
    ++told_.times_late;
    told_.late_round_trip = longest_;
    told_.sufficient_deadline = std::chrono::ceil<std::chrono::milliseconds>(2 * longest_);
  }

  const std::chrono::nanoseconds deadline_;
  std::atomic<std::uint64_t> answers_{0};
  Clock::time_point all_read_at_;
  std::vector<const ServerState*> servers_;
  std::string obstacle_;
  std::function<void()> up_;

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
