#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "waiting/timer_thread.h"

namespace sluice {

/// Keeps one process from passing the permits of a store that others share on and on to itself: a
/// process that releases a permit and wants one again at once asks before the others, which have to
/// be told first, or ask only now and then.
///
/// So a process has a run of grants at a key, and then backs off: it leaves the next permit that it
/// releases to others for a moment. A run lasts 100 ms and the backoff 4 ms where the store tells
/// others of the release; 2 s and 100 ms, the longest pause of others, where they find it only when
/// they ask. That costs a process a twentieth of the places at most, and only while all of them are
/// in use.
///
/// A run has kLeastGrants grants at least, so that of long jobs most follow each other at once. It
/// begins anew where no permit was taken for as long as a backoff: others could have had it then.
/// Thread-safe.
class ReleaseFairness {
 public:
  using TimePoint = TimerThread::TimePoint;

  struct Run {
    std::chrono::milliseconds lasts;
    std::chrono::milliseconds backoff;
  };
  static constexpr Run kWhereTold{.lasts = std::chrono::milliseconds(100),
                                  .backoff = std::chrono::milliseconds(4)};
  static constexpr Run kWhereAsked{.lasts = std::chrono::seconds(2),
                                   .backoff = std::chrono::milliseconds(100)};
  static constexpr int kLeastGrants = 4;
  /// Beyond so many keys, the runs of all begin anew.
  static constexpr std::size_t kMostKeys = 16'384;

  /// The store tells of what is released.
  void store_tells() { told_.store(true, std::memory_order_relaxed); }

  /// A permit was granted, the last one there was, which was asked for at this time.
  void granted(std::string_view key, TimePoint now);
  /// Such a permit is about to be released.
  void released(std::string_view key, TimePoint now);

  /// Until when this process leaves the permits of the key to others: not after now, where it does
  /// not.
  TimePoint backs_off_until(std::string_view key) const;

 private:
  struct Record {
    TimePoint began;
    TimePoint released;  // The last of them, or when the run began.
    TimePoint backs_off_until = TimePoint::min();
    int grants = 0;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  Run run() const { return told_.load(std::memory_order_relaxed) ? kWhereTold : kWhereAsked; }

  std::atomic<bool> told_{false};
  mutable std::mutex mutex_;
  // guarded by mutex_
  std::unordered_map<std::string, Record, Hash, std::equal_to<>> records_;
};

}  // namespace sluice
