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

  /// A connection that the store needs, as long as this exists. The store is up once each of them
  /// has been, and down while one is broken. Of several that are broken, the last one is told.
  class Server {
   public:
    explicit Server(StoreMonitor& monitor) : monitor_(monitor) {
      monitor_.servers_.push_back(this);
    }
    ~Server() {
      std::erase(monitor_.servers_, this);
      monitor_.update_state();
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    void on_up() {
      was_up_ = true;
      broken_.clear();
      monitor_.update_state();
    }
    /// No request waits for it until on_up() is called. Called again when another attempt to
    /// connect has failed.
    void on_broken(std::string_view why) {
      if (broken_.empty()) {
        std::erase(monitor_.servers_, this);
        monitor_.servers_.push_back(this);
      }
      broken_ = why;
      monitor_.update_state();
    }

   private:
    friend StoreMonitor;

    StoreMonitor& monitor_;
    bool was_up_ = false;
    std::string broken_;  // Why it is; empty: it is not.
  };

  explicit StoreMonitor(std::chrono::nanoseconds deadline) : deadline_(deadline) {}

  /// Sets what is called when a server's state has changed and no server is broken, so that the
  /// store can be used. It is called on the thread that leads the worker.
  void on_up(std::function<void()> up) { up_ = std::move(up); }
  /// Why the store cannot be used although its servers are connected; empty if it can be used
  /// again.
  void set_obstacle(std::string_view why) {
    if (obstacle_ == why) return;
    obstacle_ = why;
    update_state();
  }

  /// This thread has read all replies that had arrived at `now`.
  void on_all_read(Clock::time_point now) { all_read_at_ = now; }
  Clock::time_point all_read_at() const { return all_read_at_; }
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

  // While no server is broken, but one has not been up yet, the last state stays.
  void update_state() {
    std::string_view why = obstacle_;
    bool are_known = !servers_.empty();
    for (const Server* server : servers_) {
      are_known = are_known && server->was_up_;
      if (!server->broken_.empty()) why = server->broken_;
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
  std::vector<const Server*> servers_;  // The one that has been broken last is behind the others.
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
