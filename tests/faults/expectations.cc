#include "faults/expectations.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>

namespace sluice::faults {
namespace {

constexpr int kMostTries = 6;
constexpr int kMostQuietTries = 3;
// The pause between tries: the load of the machine may be over soon.
constexpr std::chrono::milliseconds kBetweenTries{200};
constexpr std::chrono::milliseconds kCanarySleeps{1};
// A decision wakes the store's worker thread, the server and the caller; each of them may be late.
constexpr int kWakeUps = 3;
constexpr std::size_t kLeastSamples = 1'000;
// How long a load runs before a fault, and after the time of the recovery.
constexpr std::chrono::milliseconds kBefore{150};
constexpr std::chrono::milliseconds kAfter{250};

// Other programs on this machine should not affect the measurement: if the system permits it, the
// test program and its servers get a higher priority.
class Priority final : public testing::Environment {
 public:
  void SetUp() override {
    constexpr int kBeforeOthers = -10;
    ::setpriority(PRIO_PROCESS, 0, kBeforeOthers);
  }
};
[[maybe_unused]] const testing::Environment* const kPriority =
    testing::AddGlobalTestEnvironment(new Priority);

double ms(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

struct Span {
  Clock::time_point from = Clock::time_point::min();
  Clock::time_point to = Clock::time_point::max();

  bool contains(const Sample& sample) const { return sample.asked >= from && sample.asked < to; }
};

// How many of the decisions requested in a span of time are counted.
struct Share {
  std::size_t these = 0;
  std::size_t all = 0;

  double percent() const {
    return all == 0 ? 0 : 100 * static_cast<double>(these) / static_cast<double>(all);
  }
};

Share share(const Report& report, const Span& span,
            const std::function<bool(const Sample&)>& is_counted) {
  Share share;
  for (const Sample& sample : report.samples) {
    if (!span.contains(sample)) continue;
    ++share.all;
    if (is_counted(sample)) ++share.these;
  }
  return share;
}

Share share_of(Source source, const Report& report, const Span& span = {}) {
  return share(report, span, [=](const Sample& sample) { return sample.source == source; });
}

bool is_lost(const Sample& sample) {
  return sample.source != Source::kStore && sample.source != Source::kCache;
}

// The share of the store, including the deny cache.
Share share_of_store(const Report& report, const Span& span) {
  return share(report, span, std::not_fn(is_lost));
}

struct Times {
  std::size_t count = 0;
  Clock::duration half{0};
  Clock::duration most{0};  // The 99.9th percentile.
  Clock::duration longest{0};
};

Times times_of(const Report& report, const Span& span) {
  std::vector<Clock::duration> taken;
  for (const Sample& sample : report.samples) {
    if (span.contains(sample)) taken.push_back(sample.took);
  }
  if (taken.empty()) return {};
  std::ranges::sort(taken);
  return {.count = taken.size(),
          .half = taken[taken.size() / 2],
          .most = taken[taken.size() - 1 - taken.size() / 1000],
          .longest = taken.back()};
}

// When the store answered first after the fault, and when it failed to answer last.
struct Return {
  Clock::duration first = Clock::duration::max();
  Clock::duration last_lost{0};
};

Return return_of(const Round& round) {
  Return found;
  for (const Sample& sample : round.report.samples) {
    const Clock::duration since = sample.asked - round.ended;
    if (since.count() < 0) continue;
    if (sample.source == Source::kStore) found.first = std::min(found.first, since + sample.took);
    if (is_lost(sample)) found.last_lost = since;
  }
  return found;
}

bool has_enough(const Fault& fault, const Round& round) {
  return share_of(fault.instead, round.report).these >= fault.least_instead;
}

void print(const Fault& fault, const Round& round, const Times& times) {
  const Span span{.from = round.began, .to = round.ended + kRecovery};
  const auto percent = [&](Source source) {
    return share_of(source, round.report, span).percent();
  };
  const Return back = return_of(round);
  std::printf(
      "[  FIGURES ] %s: %.2f s, %zu decisions, p50 %.2f p99.9 %.2f longest %.2f ms; store %.1f "
      "cache %.1f local %.1f policy %.1f %%; store again after %.1f ms, missed last after %.1f ms; "
      "%+.1f MiB; machine late by %.2f ms%s\n",
      fault.name.c_str(), ms(round.ended - round.began) / 1000, times.count, ms(times.half),
      ms(times.most), ms(times.longest), percent(Source::kStore), percent(Source::kCache),
      percent(Source::kLocal), percent(Source::kPolicy), ms(back.first), ms(back.last_lost),
      static_cast<double>(round.growth_bytes) / (1 << 20), ms(round.machine_late),
      has_enough(fault, round) ? "" : "; too few decisions instead of the store");
  std::fflush(stdout);
}

// Of the callers that ask while the server is known to be lost, at most one in ten waits.
bool no_caller_waits(const Fault& fault, const Round& round) {
  if (!fault.known_after) return true;
  const Span span{.from = round.began + *fault.known_after, .to = round.ended};
  const Share waited =
      share(round.report, span, [](const Sample& sample) { return sample.took > kDeadline / 2; });
  return waited.all > 0 && 10 * waited.these <= waited.all;
}

// Of the callers of a server that never counts as lost, at most one in ten gets a local answer
// before the deadline.
bool every_caller_waits(const Fault& fault, const Round& round) {
  if (!fault.never_given_up) return true;
  const Share hurried =
      share(round.report, {.from = round.began, .to = round.ended},
            [](const Sample& sample) { return is_lost(sample) && sample.took < kDeadline; });
  return 10 * hurried.these <= hurried.all;
}

bool is_as_unnoticed_as_it_should(const Fault& fault, const Round& round) {
  if (!fault.unnoticed) return true;
  return share_of_store(round.report, {.from = round.began, .to = round.ended}).percent() > 95;
}

bool is_in_time(const Fault& fault, const Round& round, const Times& times, Clock::duration room) {
  const Span after{.from = round.ended + kRecovery};
  const Share store = share_of_store(round.report, after);
  const bool enough = times.count >= kLeastSamples && has_enough(fault, round);
  // If this machine alone makes callers miss the deadline, an early answer proves nothing.
  const bool waits_prove_nothing = room >= kDeadline - kGrace;
  return (enough || room >= kDeadline) && times.most <= kDeadline + kGrace + room &&
         no_caller_waits(fault, round) &&
         (waits_prove_nothing ||
          (every_caller_waits(fault, round) && is_as_unnoticed_as_it_should(fault, round))) &&
         return_of(round).first <= kRecovery + room &&
         share_of(Source::kStore, round.report, after).these > 0 &&
         100 * store.these >= 99 * store.all;
}

void expect_admitted(const Report& report, const Bound& bound) {
  std::int64_t excess = 0;
  for (const Admitted& key : report.admitted) {
    EXPECT_LE(key.by_store, bound.by_store * key.limit) << key.key;
    EXPECT_LE(key.by_store + key.otherwise, bound.in_all * key.limit + bound.more) << key.key;
    excess += std::max<std::int64_t>(0, key.by_store + key.otherwise - key.limit - bound.more);
  }
  if (bound.excess_is_counted) {
    EXPECT_LE(excess, report.not_charged_back);
  }
}

}  // namespace

Canary::Canary()
    : thread_([this] {
        do {
          const Clock::time_point due = Clock::now() + kCanarySleeps;
          std::this_thread::sleep_until(due);
          late_.push_back(Clock::now() - due);
        } while (!stopping_.load(std::memory_order_relaxed));
      }) {}

Canary::~Canary() {
  stop();
}

std::chrono::nanoseconds Canary::stop() {
  stopping_.store(true);
  if (thread_.joinable()) thread_.join();
  const auto most = late_.end() - 1 - static_cast<std::ptrdiff_t>(late_.size() / 1000);
  std::ranges::nth_element(late_, most);
  return *most;
}

void expect_in_time(const std::string& what, const std::function<Try()>& make) {
  int quiet = 0;
  int explained = 0;
  for (int i = 0; i < kMostTries && quiet < kMostQuietTries; ++i) {
    if (i > 0) run(kBetweenTries);
    const Try made = make();
    if (testing::Test::HasFailure()) return;
    if (made.is_in_time(0ms)) {
      std::printf("[  FIGURES ] %s: in time, try %d\n", what.c_str(), i + 1);
      return;
    }
    if (made.machine_late < Canary::kQuiet) {
      ++quiet;
    } else if (made.is_in_time(kWakeUps * made.machine_late)) {
      ++explained;
    }
  }
  if (explained > quiet) {
    std::printf("[  FIGURES ] %s: late, as this machine was\n", what.c_str());
    return;
  }
  ADD_FAILURE() << what << ": late, and the machine was quiet in " << quiet << " tries";
}

void expect_whole(const Fault& fault, const std::function<Round()>& make_round) {
  expect_in_time(fault.name + ": p99.9 of a decision, or the store's return (see the figures)",
                 [&] {
                   const Round round = make_round();
                   const Times times =
                       times_of(round.report, {.from = round.began, .to = round.ended + kRecovery});
                   print(fault, round, times);
                   if (fault.bound) expect_admitted(round.report, *fault.bound);
                   EXPECT_LE(round.growth_bytes, kMostGrowth);
                   for (const std::string& stray : round.report.strays) ADD_FAILURE() << stray;
                   return Try{.machine_late = round.machine_late,
                              .is_in_time = [fault, round, times](Clock::duration room) {
                                return is_in_time(fault, round, times, room);
                              }};
                 });
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void run(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

Round through(Load& load, const std::function<void()>& fault) {
  Canary canary;
  run(kBefore);
  const std::size_t before = resident_bytes();
  Round round;
  round.began = Clock::now();
  fault();
  round.ended = Clock::now();
  const std::size_t after = resident_bytes();
  round.growth_bytes = after > before ? after - before : 0;
  run(kRecovery + kAfter);
  round.machine_late = canary.stop();
  round.report = load.stop();
  return round;
}

}  // namespace sluice::faults
