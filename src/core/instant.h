#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

/// Nanoseconds since the Unix epoch, 0 <= now < kEndOfTime. Time is always an argument: nothing
/// below the clock reads one.
using Instant = std::int64_t;

inline constexpr std::int64_t kMillisecondNs = 1'000'000;
inline constexpr std::int64_t kSecondNs = 1'000 * kMillisecondNs;
inline constexpr std::int64_t kMinuteNs = 60 * kSecondNs;
inline constexpr std::int64_t kHourNs = 60 * kMinuteNs;
inline constexpr std::int64_t kDayNs = 24 * kHourNs;

inline constexpr Instant kEndOfTime = Instant{1} << 62;

/// The longest duration a limit may name, in nanoseconds (about 73 years).
inline constexpr std::int64_t kMaxDurationNs = std::int64_t{1} << 61;

/// The largest count, limit or burst: every integer up to here is exact in a double, so Redis's Lua
/// and JSON readers hold it too.
inline constexpr std::int64_t kMaxCount = (std::int64_t{1} << 53) - 1;

/// The wall clock, steps and all: what processes on many machines agree on. For states that they
/// share, which a clock that is set back does not move backwards.
Instant wall_now();

/// steady_clock::now(), or a tick of the system before it (10 ms at most), for a fourth of its
/// cost.
std::chrono::steady_clock::time_point steady_now_cheaply();

/// The wall clock read once, monotonic time since: steps of the wall clock do not move it, so no
/// state is ever judged at an instant that jumped. Thread-safe.
class Clock {
 public:
  /// Reads the wall clock now, and never again.
  Clock();

  Instant now() const;
  /// As steady_now_cheaply().
  Instant now_cheaply() const;

 private:
  std::int64_t offset_ns_;
};

}  // namespace sluice
