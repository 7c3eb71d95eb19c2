#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "service/duration_histogram.h"
#include "service/slow_decisions.h"
#include "service/thread_count.h"
#include "service/top_keys.h"
#include "sluice/decision.h"

namespace sluice {

/// The outcome of a decision.
enum class Outcome : std::uint8_t {
  kAllowed,
  kDenied,
  kWouldDeny,  ///< Allowed by a limit in a dry run, which would have denied.
};
inline constexpr std::array kOutcomes = {Outcome::kAllowed, Outcome::kDenied, Outcome::kWouldDeny};

inline Outcome outcome_of(const Decision& decision) {
  if (decision.would_deny) return Outcome::kWouldDeny;
  return decision.allowed ? Outcome::kAllowed : Outcome::kDenied;
}

/// How many requests of a limit had one outcome and source, for display.
struct OutcomeCount {
  std::string limit;
  Outcome outcome = Outcome::kAllowed;
  Source source = Source::kStore;
  std::uint64_t decisions = 0;

  friend bool operator==(const OutcomeCount&, const OutcomeCount&) = default;
};

/// Counts the decisions of one thread, by limit, outcome and source, and how long they took. One
/// thread adds; any thread may read meanwhile.
class OutcomeCounters {
 public:
  static constexpr std::size_t kSources = static_cast<std::size_t>(Source::kUnavailable) + 1;

  /// For the limits numbered from 0 to `limits` - 1. `slow` outlives this.
  OutcomeCounters(std::size_t limits, SlowDecisions& slow) : counts_(limits), slow_(slow) {}

  /// REQUIRES: limit < limits.
  void add(std::size_t limit, const Decision& decision) {
    assert(limit < counts_.size());
    counts_[limit][index_of(outcome_of(decision), decision.source)].add(1);
  }

  std::uint64_t read(std::size_t limit, Outcome outcome, Source source) const {
    return counts_[limit][index_of(outcome, source)].read();
  }

  /// A batch of these requests took this long.
  void add_duration(std::int64_t duration_ns, std::span<const ReplySlot> slots) {
    durations.add(duration_ns, slots.size());
    slow_.note(duration_ns, slots);
  }

  /// How long the decisions took.
  DurationHistogram durations;
  /// The keys of denied requests, whether the store or this process in its place has denied them.
  DeniedKeys denied;

 private:
  static constexpr std::size_t index_of(Outcome outcome, Source source) {
    return static_cast<std::size_t>(outcome) * kSources + static_cast<std::size_t>(source);
  }

  std::vector<std::array<ThreadCount, kOutcomes.size() * kSources>> counts_;
  SlowDecisions& slow_;
};

}  // namespace sluice
