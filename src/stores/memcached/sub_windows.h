#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "algorithms/limit_definition.h"
#include "core/algorithm.h"
#include "core/arithmetic.h"

namespace sluice::memcached {

/// How a limit is counted by counters that only add: one for each sub-window, which is the whole
/// window of a fixed_window.
struct SubWindows {
  /// By so many sub-windows clocks may differ and a reply be late, both together: two, so that a
  /// clock may be ahead by at least one whole sub-window.
  static constexpr std::int64_t kAhead = 2;

  std::int64_t span_ns = 1;
  /// So many before the current one count with it.
  std::int64_t before = 0;
  /// So many after it may have been begun by somebody whose clock is ahead, and count as well: of
  /// two who add at once, one sees the other's units whatever their clocks.
  std::int64_t after = 0;
  /// Names what the counts mean: nobody else's are read.
  std::string kind;

  std::int64_t number_at(Instant now) const { return now / span_ns; }
  /// From `now` until units that are added now count no longer, for anybody whose clock is up to
  /// kAhead sub-windows behind: whoever adds first, by whatever clock, decides for how long a
  /// counter is kept.
  std::int64_t lifetime_ns(Instant now) const {
    const std::int64_t counts_ns = (number_at(now) + before + 1) * span_ns - now;
    return counts_ns + std::min(kAhead * span_ns, kMaxInt64 - counts_ns);
  }
  /// What is asked at `now` is to be answered by then: later, sub-windows may have begun that were
  /// not read, and counters have gone.
  Instant answered_by(Instant now) const { return now + kAhead * span_ns; }
};

/// The highest limit that is counted so. Those who race add before they look, and a counter begins
/// again at 0 above 2^64 - 1: it would take 2^32 of them, or 2^11 at once who charge 2^53 units
/// each. Who did it puts it back; who looks in between is deceived.
inline constexpr std::int64_t kMostCounted = std::int64_t{1} << 32;

/// Nothing where the limit is judged by compare-and-swap: it is none of fixed_window on the clock
/// and sliding_window, or joins others, or is above kMostCounted.
std::optional<SubWindows> sub_windows_of(const LimitDefinition& limit);

/// What the counters of a key's sub-windows hold, oldest first.
struct Counts {
  std::span<const std::uint64_t> units;
  /// Which of them is the one that is current at the instant of the call.
  std::size_t current = 0;
};

/// The answer to a call on these counts. REQUIRES: sub_windows_of(limit) is not nothing, and says
/// how many there are before and after the current one.
Decision judge_counts(const LimitDefinition& limit, const Counts& counts, const Call& call);

}  // namespace sluice::memcached
