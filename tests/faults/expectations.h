#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
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
  /// By how much this machine was late: see Canary.
  Clock::duration machine_late{0};
  /// So long after the fault began, the server is known to be lost. Nobody waits for it from then
  /// on until the fault is over, up to one caller in ten, whom this machine may have kept waiting.
  std::optional<std::chrono::milliseconds> known_after = {};
  /// The server is never taken for lost. Until the fault is over, each caller is answered by the
  /// store or waits until the deadline, up to one in ten, whom a stall of this machine may hurry.
  bool never_given_up = false;
};

/// What every fault has to leave whole: each decision is its own request's; p99.9 of those from the
/// beginning of the fault to kRecovery after its end is within kDeadline + kGrace; nobody waits for
/// a server that is known to be lost, and none is taken for lost that is not; the store answers
/// within kRecovery after its end, and from then on it has 99 of 100 decisions at least, together
/// with what is denied in its name; the process has not grown by more than kMostGrowth, which two
/// callers who wait for their answers are far from. Prints the figures under the name of the fault.
///
/// Its times, and who answers in time, are kept as expect_in_time() has it. Everything else holds
/// in each round.
void expect_whole(const std::string& fault, const std::function<Round()>& make_round);

/// One try to be in time.
struct Try {
  /// By how much this machine was late meanwhile: see Canary.
  Clock::duration machine_late{0};
  /// Whether all was in time, had it so much more.
  std::function<bool(Clock::duration room)> is_in_time;
};

/// One of the tries is in time. Another program that runs on this machine at the same moment can
/// keep a thread waiting: a try that is late proves something only where the machine was quiet. It
/// fails with the third of those, or once six tries were late; but where the machine was quiet in
/// none of them, only if no try would have been in time with as much room as the machine itself
/// took. What `make` itself expects has to hold in each try: no other one is made where it does
/// not. Prints how many tries it took.
void expect_in_time(const std::string& what, const std::function<Try()>& make);

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
/// Those of the store, together with what is denied in its name.
Share share_of_store(const Report& report, const Span& span);

/// What the process takes of the machine's memory.
std::size_t resident_bytes();

/// Lets the callers go on for so long.
void run(std::chrono::milliseconds time);

/// Makes a round of a running load: the fault, and as long as it takes until all is well again.
/// `fault` returns when the server can be asked again; it may be back before.
Round through(Load& load, const std::function<void()>& fault);

}  // namespace sluice::faults
