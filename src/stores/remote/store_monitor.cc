#include "stores/remote/store_monitor.h"

#include <algorithm>
#include <utility>

namespace sluice {

void StoreMonitor::add(const ServerState& server) {
  std::erase(servers_, &server);
  servers_.push_back(&server);
}

void StoreMonitor::forget(const ServerState& server) {
  std::erase(servers_, &server);
  update_state();
}

void StoreMonitor::set_obstacle(std::string_view why) {
  if (obstacle_ == why) return;
  obstacle_ = why;
  update_state();
}

/// While all servers are between two connections, or one has not been connected yet, the last state
/// stays.
void StoreMonitor::update_state() {
  std::string_view why = obstacle_;
  bool are_known = !servers_.empty();
  for (const ServerState* server : servers_) {
    are_known = are_known && server->now != ServerState::kNew;
    if (server->now == ServerState::kBroken) why = server->down_why;
  }
  if (why.empty() && !are_known) return;
  const std::lock_guard lock(mutex_);
  const bool is_down = !why.empty();
  if (is_down) told_.reason = why;
  const State before = std::exchange(told_.state, is_down ? State::kDown : State::kUp);
  if (before == told_.state) return;
  told_.since = std::chrono::system_clock::now();
  if (is_down) ++told_.times_lost;
}

void StoreMonitor::on_reply(Clock::time_point sent, Clock::time_point now) {
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

/// REQUIRES: mutex_ is held.
void StoreMonitor::note_late(std::chrono::nanoseconds round_trip) {
  in_time_in_a_row_ = 0;
  longest_ = std::max(longest_, round_trip);
  ++told_.late_replies;
  const bool begins = ++late_in_a_row_ == kInARow && !std::exchange(is_late_, true);
  if (!begins) return;
  ++told_.times_late;
  told_.late_round_trip = longest_;
  told_.sufficient_deadline = std::chrono::ceil<std::chrono::milliseconds>(2 * longest_);
}

void StoreMonitor::note_lag(std::string_view whose, std::chrono::nanoseconds lag) {
  const std::lock_guard lock(mutex_);
  ++told_.clock_behind;
  told_.late_clock = whose;
  told_.clock_lag = lag;
}

void StoreMonitor::add_to(StoreHealth& health) const {
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

}  // namespace sluice
