// The guarantee of each algorithm about all admissions, for any requests.

#include <algorithm>
#include <map>

#include "conformance/every_store.h"
#include "conformance/scenario.h"
#include "conformance/subject.h"

namespace sluice::conformance {
namespace {

using model::Kind;
using model::ModelLimit;
using model::Wide;

struct Admitted {
  Wide at = 0;
  Wide units = 0;
  Wide delay = 0;
};

struct Outcome {
  ModelLimit limit;
  std::vector<Admitted> admitted;
};

// One limit, one key, time in order.
Outcome play(const StoreCase& store, Kind kind, bool patience = false) {
  const Scenario scenario = *scenarios(store, {.kinds = {kind},
                                               .most_limits = 1,
                                               .keys = 1,
                                               .in_order = true,
                                               .patience = patience,
                                               .borrow = false});
  Subject subject(store, scenario);
  Outcome outcome{scenario.limits.front().front(), {}};
  for (const auto& event : scenario.events) {
    const Decision decision = subject.ask(event);
    if (!decision.allowed || event.cost == 0) continue;
    outcome.admitted.push_back({event.now, event.cost, decision.delay.count()});
  }
  return outcome;
}

// The most units that were admitted in any interval [t, t + length). It is enough to look at
// intervals that begin at an admission.
Wide most_within(const std::vector<Admitted>& admitted, Wide length) {
  Wide most = 0;
  for (std::size_t i = 0; i < admitted.size(); ++i) {
    Wide sum = 0;
    for (std::size_t j = i; j < admitted.size() && admitted[j].at < admitted[i].at + length; ++j) {
      sum += admitted[j].units;
    }
    most = std::max(most, sum);
  }
  return most;
}

TEST_P(EveryStore, SlidingLogAdmitsAtMostItsLimitInAnyWindow) {
  check(GetParam(), 150, [&] {
    const Outcome outcome = play(GetParam(), Kind::kSlidingLog);
    RC_ASSERT(most_within(outcome.admitted, outcome.limit.window_ns) <= outcome.limit.count);
  });
}

TEST_P(EveryStore, StrictSlidingWindowAdmitsAtMostItsLimitInAnyWindow) {
  check(GetParam(), 150, [&] {
    const Outcome outcome = play(GetParam(), Kind::kSlidingWindow);
    if (!outcome.limit.strict) return;
    RC_ASSERT(most_within(outcome.admitted, outcome.limit.window_ns) <= outcome.limit.count);
  });
}

TEST_P(EveryStore, FixedWindowAdmitsAtMostItsLimitInEachWindow) {
  check(GetParam(), 150, [&] {
    const Outcome outcome = play(GetParam(), Kind::kFixedWindow);
    const Wide window = outcome.limit.window_ns;
    RC_ASSERT(most_within(outcome.admitted, window) <= Wide{outcome.limit.count} * 2);
    Wide sum = 0;
    Wide start = -window;
    for (const auto& entry : outcome.admitted) {
      if (entry.at >= start + window) {
        start = outcome.limit.anchor_first ? entry.at : entry.at / window * window;
        sum = 0;
      }
      sum += entry.units;
      RC_ASSERT(sum <= Wide{outcome.limit.count});
    }
  });
}

TEST_P(EveryStore, SlidingCounterAdmitsAtMostTwiceItsLimitInAnyWindow) {
  check(GetParam(), 150, [&] {
    const Outcome outcome = play(GetParam(), Kind::kSlidingCounter);
    RC_ASSERT(most_within(outcome.admitted, outcome.limit.window_ns) <=
              Wide{outcome.limit.count} * 2);
  });
}

TEST_P(EveryStore, TokenBucketAdmitsAtMostItsBurstAndItsRate) {
  check(GetParam(), 150, [&] {
    const Outcome outcome = play(GetParam(), Kind::kTokenBucket);
    const Wide interval = outcome.limit.interval_ns();
    for (std::size_t i = 0; i < outcome.admitted.size(); ++i) {
      Wide sum = 0;
      for (std::size_t j = i; j < outcome.admitted.size(); ++j) {
        sum += outcome.admitted[j].units;
        const Wide elapsed = outcome.admitted[j].at - outcome.admitted[i].at;
        RC_ASSERT(sum <= outcome.limit.most() + elapsed / interval);
      }
    }
  });
}

TEST_P(EveryStore, LeakyBucketSpacesCallersAtLeastAnIntervalApart) {
  check(GetParam(), 150, [&] {
    const Outcome outcome = play(GetParam(), Kind::kLeakyBucket, true);
    for (std::size_t i = 1; i < outcome.admitted.size(); ++i) {
      const Admitted& before = outcome.admitted[i - 1];
      const Admitted& next = outcome.admitted[i];
      RC_ASSERT(next.at + next.delay >=
                before.at + before.delay + before.units * outcome.limit.interval_ns());
    }
  });
}

// A holder that renews in time keeps its permit; one that does not loses it when its lease ends.
TEST_P(EveryStore, AtMostTheLimitOfPermitsCountAtTheSameTime) {
  check(GetParam(), 150, [&] {
    const Scenario scenario = *scenarios(
        GetParam(), {.kinds = {Kind::kConcurrency}, .most_limits = 1, .keys = 1, .in_order = true});
    const ModelLimit limit = scenario.limits.front().front();
    Subject subject(GetParam(), scenario);
    std::map<PermitId, Wide> expires;
    for (const auto& event : scenario.events) {
      const Decision decision = subject.ask(event);
      std::erase_if(expires, [&](const auto& held) { return held.second <= event.now; });
      const bool held = expires.contains(event.permit);
      const bool names_one = event.operation != Operation::kTake;
      if (names_one) RC_ASSERT(decision.allowed == held);
      if (!decision.allowed || event.cost == 0) continue;
      if (event.operation == Operation::kRelease) {
        expires.erase(event.permit);
      } else {
        expires[event.permit] = Wide{event.now} + limit.window_ns;
      }
      RC_ASSERT(Wide{limit.count} - Wide(expires.size()) == Wide{decision.remaining});
    }
  });
}

}  // namespace
}  // namespace sluice::conformance
