#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "faults/load.h"

namespace sluice::faults {

using namespace std::chrono_literals;

/// Of every store in these tests, which is what a store has that is told nothing.
inline constexpr std::chrono::milliseconds kDeadline{10};
/// A decision may take so much longer.
inline constexpr std::chrono::milliseconds kGrace{2};
/// When the server has come back, the store is to have the decisions again.
inline constexpr std::chrono::seconds kRecovery{1};
/// How much the process may grow while a server is away.
inline constexpr std::size_t kMostGrowth = std::size_t{16} << 20;

/// One time through a fault.
struct Round {
  Report report;
  /// The fault began, and was over: the server could be asked again.
  Clock::time_point began = {};
  Clock::time_point ended = {};
  /// By how much the process has grown in between.
  std::size_t growth_bytes = 0;
};

/// What every fault has to leave whole: each decision is its own request's; p99.9 of those from the
/// beginning of the fault to kRecovery after its end is within kDeadline + kGrace; the store
/// answers within kRecovery after its end, and from then on it has 99 of 100 decisions at least,
/// together with what is denied in its name; memory is bounded. Prints the figures under the name
/// of the fault.
///
/// Another program that runs on this machine at the same moment can keep a thread waiting. So where
/// the times were not kept, the round is made again, up to three in all. Everything else holds in
/// each round.
void expect_whole(const std::string& fault, const std::function<Round()>& make_round);

/// How many limits' worth each key may have been admitted.
struct Bound {
  std::int64_t by_store = 1;
  std::int64_t in_all = 1;
};
void expect_admitted(const Report& report, const Bound& bound);

/// How many decisions that were asked for in the time given came from this source, and of how many.
struct Share {
  std::size_t these = 0;
  std::size_t all = 0;

  double percent() const;
};
struct Span {
  Clock::time_point from = Clock::time_point::min();
  Clock::time_point to = Clock::time_point::max();
};
Share share_of(Source source, const Report& report, const Span& span = {});

/// The server is known to be lost: nobody waits for it, up to one caller in ten, whom this machine
/// may have kept waiting.
void expect_nobody_waits(const Report& report, const Span& span);

/// What the process takes of the machine's memory.
std::size_t resident_bytes();

/// Lets the callers go on for so long.
void run(std::chrono::milliseconds time);

/// Makes a round of a running load: the fault, and as long as it takes until all is well again.
/// `fault` returns when the server can be asked again; it may be back before.
Round through(Load& load, const std::function<void()>& fault);

}  // namespace sluice::faults
