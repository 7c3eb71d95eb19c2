#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace sluice::faults {

/// Measures how late this machine wakes threads: its thread only sleeps for a millisecond, again
/// and again, and records by how much it overslept. If it is late, other threads are late as well.
class Canary {
 public:
  /// Below this lateness the machine was quiet: the three wake-ups of a decision, each as late, do
  /// not explain a late decision.
  static constexpr std::chrono::microseconds kQuiet{500};

  Canary();
  ~Canary();

  /// Stops the thread. Returns the 99.9th percentile of its lateness.
  std::chrono::nanoseconds stop();

 private:
  std::atomic<bool> stopping_{false};
  std::vector<std::chrono::nanoseconds> late_;  // Used only by the thread until it has ended.
  std::thread thread_;
};

}  // namespace sluice::faults
