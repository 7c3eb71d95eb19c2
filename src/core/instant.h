#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

/// Nanoseconds since the Unix epoch, 0 <= now < kEndOfTime. Algorithms get the time as an argument
/// and never read a clock.
using Instant = std::int64_t;

inline constexpr std::int64_t kMillisecondNs = 1'000'000;
inline constexpr std::int64_t kSecondNs = 1'000 * kMillisecondNs;
inline constexpr std::int64_t kMinuteNs = 60 * kSecondNs;
inline constexpr std::int64_t kHourNs = 60 * kMinuteNs;
inline constexpr std::int64_t kDayNs = 24 * kHourNs;

inline constexpr Instant kEndOfTime = Instant{1} << 62;

/// The longest duration in a limit, in nanoseconds (about 73 years).
inline constexpr std::int64_t kMaxDurationNs = std::int64_t{1} << 61;

/// The last instant at which a block, or the lease of a permit, can end.
inline constexpr Instant kLastEnd = kEndOfTime - 1 + kMaxDurationNs;

/// The largest count, limit or burst. Every integer up to this is exact in a double, so it is also
/// exact in Redis's Lua and in JSON.
inline constexpr std::int64_t kMaxCount = (std::int64_t{1} << 53) - 1;

inline double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}
inline double in_seconds(std::int64_t ns) {
  return in_seconds(std::chrono::nanoseconds(ns));
}

/// The wall clock, on which the processes of many machines agree. It may be set; use it only for
/// shared states whose time never runs backwards.
Instant wall_now();

/// steady_clock::now() as of the last tick of the system, at most 10 ms ago. Costs a quarter of
/// steady_clock::now().
std::chrono::steady_clock::time_point steady_now_cheaply();

/// Monotonic time that starts at the wall clock's time. Setting the wall clock later does not
/// change it, so instants never jump. Thread-safe.
class Clock {
 public:
  /// Reads the wall clock, for the only time.
  Clock() : Clock(wall_now()) {}
  /// Starts at `now` instead.
  explicit Clock(Instant now);

  Instant now() const;
  /// What now() was at that time.
  Instant at(std::chrono::steady_clock::time_point time) const;
  /// now() as of the last tick, as steady_now_cheaply().
  Instant now_cheaply() const;

 private:
  std::int64_t offset_ns_;
};

}  // namespace sluice
