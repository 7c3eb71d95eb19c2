#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace sluice::faults {

/// Tells how late this machine is: a thread that only wakes up, each millisecond, as long as the
/// canary lives, and notes by how much it overslept. Where it is late, so is everybody.
class Canary {
 public:
  /// Below that the machine was quiet: who was late was so by himself.
  static constexpr std::chrono::milliseconds kQuiet{1};

  Canary();
  ~Canary();

  /// Ends it. By how much it overslept, but for one time in a thousand.
  std::chrono::nanoseconds stop();

 private:
  std::atomic<bool> stopping_{false};
  std::vector<std::chrono::nanoseconds> late_;  // The thread's, until it has ended.
  std::thread thread_;
};

}  // namespace sluice::faults
