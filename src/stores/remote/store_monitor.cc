#include "stores/remote/store_monitor.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice {

void StoreMonitor::on_up(const ServerHealth& server) {
  const std::lock_guard lock(mutex_);
  servers_[&server].clear();
  judge();
}

void StoreMonitor::on_down(const ServerHealth& server, std::string_view why) {
  const std::lock_guard lock(mutex_);
  servers_[&server] = why;
  judge();
}

void StoreMonitor::forget(const ServerHealth& server) {
  const std::lock_guard lock(mutex_);
  if (servers_.erase(&server) != 0) judge();
}

void StoreMonitor::set_obstacle(std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (obstacle_ == why) return;
  obstacle_ = why;
  judge();
}

/// While all servers are between two connections, the last state stays.
/// REQUIRES: mutex_ is held.
void StoreMonitor::judge() {
  const auto down =
      std::ranges::find_if(servers_, [](const auto& server) { return !server.second.empty(); });
  if (down != servers_.end() || !obstacle_.empty()) {
    told_.reason = down != servers_.end() ? down->second : obstacle_;
    set_state(State::kDown);
  } else if (!servers_.empty()) {
    set_state(State::kUp);
  }
}

/// REQUIRES: mutex_ is held.
void StoreMonitor::set_state(State state) {
  if (told_.state == state) return;
  told_.state = state;
  told_.since = std::chrono::system_clock::now();
  if (state == State::kDown) ++told_.times_lost;
}

void StoreMonitor::on_reply(std::chrono::nanoseconds round_trip) {
  const std::uint64_t number = replies_.load(std::memory_order_relaxed);
  round_trips_ns_[number % kKeptReplies].store(round_trip.count(), std::memory_order_relaxed);
  replies_.store(number + 1, std::memory_order_release);
  if (round_trip > deadline_) return note_late(round_trip);
  late_in_a_row_ = 0;
  longest_ = {};
  if (is_late_ && ++in_time_in_a_row_ == kInARow) is_late_ = false;
}

void StoreMonitor::note_late(std::chrono::nanoseconds round_trip) {
  in_time_in_a_row_ = 0;
  longest_ = std::max(longest_, round_trip);
  const bool begins = ++late_in_a_row_ == kInARow && !std::exchange(is_late_, true);
  const std::lock_guard lock(mutex_);
  ++told_.late_replies;
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
  const std::lock_guard lock(mutex_);
  health = told_;
  health.deadline = deadline_;
  health.answered_by_store = answers_.load(std::memory_order_relaxed);
  health.late_here = late_here_.load(std::memory_order_relaxed);
  health.late_server = late_server_.load(std::memory_order_relaxed);
  add_round_trips(health);
}

void StoreMonitor::add_round_trips(StoreHealth& health) const {
  const std::uint64_t replies = replies_.load(std::memory_order_acquire);
  std::vector<std::int64_t> sorted(std::min<std::size_t>(replies, kKeptReplies));
  if (sorted.empty()) return;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sorted[i] = round_trips_ns_[i].load(std::memory_order_relaxed);
  }
  std::ranges::sort(sorted);
  health.round_trip_p50 = std::chrono::nanoseconds(sorted[sorted.size() / 2]);
  health.round_trip_p99 = std::chrono::nanoseconds(sorted[sorted.size() * 99 / 100]);
}

}  // namespace sluice
