#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "limiter/timekeeper.h"

namespace sluice {

/// Keeps one process from passing the permits of a store that others share on and on to itself: who
/// gives one back and wants one again at once is always there before the others, who have to be
/// told first, or ask only now and then.
///
/// So a process has a turn at a key, and then lets the next permit that it gives back lie: for 4 ms
/// after each 100 ms where the store tells others of it, and for as long as others pause at most
/// after each 2 s where they find it only when they ask. That costs it a twentieth of the places at
/// most, and only while all of them are in use.
///
/// A turn is had by passing permits on: it takes kLeastGrants of them at least, so that of long
/// jobs most follow each other at once. And it begins anew where none was taken for as long as a
/// rest: others have had their chance then. Thread-safe.
class Turns {
 public:
  using TimePoint = Timekeeper::TimePoint;

  struct Turn {
    std::chrono::milliseconds lasts;
    std::chrono::milliseconds rest;
  };
  static constexpr Turn kWhereTold{.lasts = std::chrono::milliseconds(100),
                                   .rest = std::chrono::milliseconds(4)};
  static constexpr Turn kWhereAsked{.lasts = std::chrono::seconds(2),
                                    .rest = std::chrono::milliseconds(100)};
  static constexpr int kLeastGrants = 4;
  /// Beyond so many keys, all their turns begin anew.
  static constexpr std::size_t kMostKeys = 16'384;

  /// The store tells of what is released.
  void store_tells() { told_.store(true, std::memory_order_relaxed); }

  /// A permit was granted, the last one there was, which was asked for at this time.
  void granted(std::string_view key, TimePoint now);
  /// Such a permit is about to be given back.
  void released(std::string_view key, TimePoint now);

  /// Until when this process leaves the permits of the key to others: not after now, where it does
  /// not.
  TimePoint rests_until(std::string_view key) const;

 private:
  struct Record {
    TimePoint began;
    TimePoint given_back;  // The last of them, or when the turn began.
    TimePoint rests_until = TimePoint::min();
    int grants = 0;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  Turn turn() const;

  std::atomic<bool> told_{false};
  mutable std::mutex mutex_;
  // guarded by mutex_
  std::unordered_map<std::string, Record, Hash, std::equal_to<>> records_;
};

}  // namespace sluice
