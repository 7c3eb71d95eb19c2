#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/text_hash.h"
#include "waiting/timer_thread.h"

namespace sluice {

/// Keeps one process from taking all permits of a key that several processes share. A process that
/// releases a permit and has another caller waiting asks the store at once; other processes ask
/// later, because they must first be notified of the release, or ask only after pauses.
///
/// So a process has a run of grants at a key, and then backs off: after it releases the next
/// permit, its callers do not ask for a while. If the store notifies other processes of releases, a
/// run lasts 100 ms and a backoff 4 ms. If it does not, a run lasts 2 s and a backoff 100 ms, which
/// is the longest pause of waiting callers in other processes. The cost is at most a twentieth of
/// the permits, and only while all of them are in use.
///
/// A run has at least kLeastGrants grants, so that most long jobs follow each other without a
/// backoff. A new run begins if a released permit stayed free for as long as a backoff, because
/// other processes could have taken it then. Thread-safe.
class ReleaseFairness {
 public:
  using TimePoint = TimerQueue::TimePoint;

  struct Run {
    std::chrono::milliseconds lasts;
    std::chrono::milliseconds backoff;
  };
  /// If the store notifies this process of releases, and if it does not.
  static constexpr Run kNotified{.lasts = std::chrono::milliseconds(100),
                                 .backoff = std::chrono::milliseconds(4)};
  static constexpr Run kPolling{.lasts = std::chrono::seconds(2),
                                .backoff = std::chrono::milliseconds(100)};
  static constexpr int kLeastGrants = 4;
  /// The most keys with a record; beyond that all records are dropped, and new runs begin.
  static constexpr std::size_t kMostKeys = 16'384;

  /// Called when the store has begun to notify this process of releases. It counts for all keys of
  /// the space, and while a subscription is lost, too.
  void store_notifies() { is_notified_.store(true, std::memory_order_relaxed); }

  /// Called when this process was granted the last free permit of the key, for which it had asked
  /// the store at `asked`.
  void granted(std::string_view key, TimePoint asked) {
    const std::lock_guard lock(mutex_);
    auto found = records_.find(key);
    if (found == records_.end()) {
      if (records_.size() >= kMostKeys) records_.clear();
      found = records_.emplace(key, Record{.began = asked, .released = asked}).first;
    }
    Record& record = found->second;
    if (asked - record.released >= run().backoff) record = {.began = asked, .released = asked};
    ++record.grants;
  }
  /// Called before such a permit is released.
  void released(std::string_view key, TimePoint now) {
    const std::lock_guard lock(mutex_);
    const auto found = records_.find(key);
    if (found == records_.end()) return;
    Record& record = found->second;
    record.released = now;
    if (now - record.began < run().lasts || record.grants < kLeastGrants) return;
    record = {.began = now, .released = now, .backs_off_until = now + run().backoff};
  }

  /// Until when this process leaves the permits of the key to other processes; a time that is not
  /// after now if it does not.
  TimePoint backs_off_until(std::string_view key) const {
    const std::lock_guard lock(mutex_);
    const auto found = records_.find(key);
    return found == records_.end() ? TimePoint::min() : found->second.backs_off_until;
  }

 private:
  struct Record {
    TimePoint began;
    TimePoint released;  // The last release, or when the run began.
    TimePoint backs_off_until = TimePoint::min();
    int grants = 0;
  };

  Run run() const { return is_notified_.load(std::memory_order_relaxed) ? kNotified : kPolling; }

  std::atomic<bool> is_notified_{false};
  mutable std::mutex mutex_;
  // guarded by mutex_
  std::unordered_map<std::string, Record, TextHash, std::equal_to<>> records_;
};

}  // namespace sluice
