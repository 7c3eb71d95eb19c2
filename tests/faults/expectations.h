#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "faults/load.h"

namespace sluice::faults {

using namespace std::chrono_literals;

/// The deadline of every store in these tests, which is the default.
inline constexpr std::chrono::milliseconds kDeadline{10};
/// How much longer than the deadline a decision may take.
inline constexpr std::chrono::milliseconds kGrace{2};
/// Within this time after the server has returned, the store must decide again.
inline constexpr std::chrono::seconds kRecovery{1};
/// How much the process may grow during a fault.
inline constexpr std::size_t kMostGrowth = std::size_t{16} << 20;

/// How many times its limit each key may have been admitted; in all, and so many units more, which
/// the store admits before it is charged with what was admitted locally.
struct Bound {
  std::int64_t by_store = 1;
  std::int64_t in_all = 1;
  std::int64_t more = 0;
  /// The units that all keys together were admitted beyond their limits and `more` must be counted
  /// as not charged back.
  bool excess_is_counted = false;
};

/// A fault, and what it may do.
struct Fault {
  std::string name;
  /// By default the server keeps its states: nothing is admitted beyond the limit except requests
  /// that are under way when the server is back. Without a value, the round checks it.
  std::optional<Bound> bound = Bound{.more = 4};
  /// So long after the fault began, the server is known to be lost. From then on until the fault
  /// ends, at most one caller in ten may wait for it, since this machine may be late.
  std::optional<std::chrono::milliseconds> known_after = {};
  /// The server never counts as lost. Until the fault ends, each caller gets the store's answer or
  /// waits until the deadline, except at most one in ten, since this machine may stall.
  bool never_given_up = false;
  /// The store answers more than 95 of 100 requests during the fault.
  bool unnoticed = false;
  /// This source makes at least so many decisions. A process that is held for a while may make
  /// fewer.
  std::size_t least_instead = 0;
  Source instead = Source::kLocal;
};

/// One round of a fault.
struct Round {
  Report report;
  /// When the fault began and ended; after its end the server answers again.
  Clock::time_point began = {};
  Clock::time_point ended = {};
  /// By how much the process has grown between.
  std::size_t growth_bytes = 0;
  /// The lateness of this machine, see Canary.
  Clock::duration machine_late{0};
};

/// What must hold under every fault: each decision belongs to its own request; p99.9 of the
/// decisions from the beginning of the fault to kRecovery after its end is within kDeadline +
/// kGrace; no caller waits for a server that is known to be lost, and no other server counts as
/// lost; callers do not notice a fault that is to be unnoticed; each key is admitted within the
/// bound; the store answers within kRecovery after the end of the fault, and from then on it makes
/// at least 99 of 100 decisions, including those of the deny cache; there are at least 1,000
/// decisions, and as many instead of the store as the fault says; the process has not grown by more
/// than kMostGrowth, which is generous for two waiting callers. Prints the figures under the name
/// of the fault.
///
/// The times, which decisions are in time, and the numbers of decisions are checked by
/// expect_in_time(). Everything else must hold in each round.
void expect_whole(const Fault& fault, const std::function<Round()>& make_round);

/// Measures how late this machine wakes threads: its thread only sleeps for a millisecond, again
/// and again, and records by how much it overslept. If it is late, other threads are late as well.
class Canary {
 public:
  /// Below this lateness the machine was quiet: the three wake-ups of a decision, each as late, do
  /// not explain a late decision.
  static constexpr std::chrono::microseconds kQuiet{500};

  Canary();
  ~Canary();

  /// Stops the thread. Returns the 99.9th percentile of its lateness.
  std::chrono::nanoseconds stop();

 private:
  std::atomic<bool> stopping_{false};
  std::vector<std::chrono::nanoseconds> late_;  // Used only by the thread until it has ended.
  std::thread thread_;
};

/// One attempt to be in time.
struct Try {
  /// The lateness of this machine meanwhile, see Canary.
  Clock::duration machine_late{0};
  /// Whether all decisions were in time if they had `room` more.
  std::function<bool(Clock::duration room)> is_in_time;
};

/// Expects that one of several tries is in time. Another program on this machine can delay a
/// thread, so a late try proves something only if the machine was quiet. The test fails with the
/// third late try on a quiet machine, or after six late tries, unless more of them would have been
/// in time with the machine's lateness as extra room than were made while it was quiet. (A late try
/// on a quiet machine proves little alone: the lateness is a percentile, which does not show that
/// one process was held for a while.) The expectations inside `make` must hold in each try; if they
/// do not, there are no further tries. Prints the number of tries.
void expect_in_time(const std::string& what, const std::function<Try()>& make);

/// The resident memory of the process.
std::size_t resident_bytes();

/// Lets the callers run for `time`.
void run(std::chrono::milliseconds time);

/// Runs one round with a running load: the fault, and the time of the recovery. `fault` returns
/// when the server answers again, or later.
Round through(Load& load, const std::function<void()>& fault);

}  // namespace sluice::faults
