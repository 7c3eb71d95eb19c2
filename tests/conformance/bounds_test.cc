// The guarantee of each algorithm about all admissions, for any requests. Checked on the model,
// with which agreement_test.cc compares each store.

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
Scenario any_scenario(Kind kind, bool patience = false) {
  return *scenarios({.kinds = {kind},
                     .most_limits = 1,
                     .keys = 1,
                     .in_order = true,
                     .patience = patience,
                     .borrow = false,
                     .strict = true});
}

Outcome play(Kind kind, bool patience = false) {
  const Scenario scenario = any_scenario(kind, patience);
  Reference model(scenario);
  Outcome outcome{scenario.limits.front().front(), {}};
  for (const auto& event : scenario.events) {
    const Decision decision = model.ask(event);
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

// A bound that no scenario exceeds and some scenario reaches: an algorithm that admits less than it
// may fails, too.
class Bound : public testing::Test {
 protected:
  template <class Property>
  void check_model(Property property) {
    check(StoreCase{.name = "Model", .open = {}}, 300, property);
    EXPECT_TRUE(reached_);
  }
  void is_at_most(Wide value, Wide most) {
    RC_ASSERT(value <= most);
    reached_ = reached_ || value == most;
  }

  bool reached_ = false;
};

TEST_F(Bound, OfASlidingLogIsItsLimitInAnyWindow) {
  check_model([&] {
    const Outcome outcome = play(Kind::kSlidingLog);
    is_at_most(most_within(outcome.admitted, outcome.limit.window_ns), outcome.limit.count);
  });
}

TEST_F(Bound, OfAStrictSlidingWindowIsItsLimitInAnyWindow) {
  check_model([&] {
    const Outcome outcome = play(Kind::kSlidingWindow);
    is_at_most(most_within(outcome.admitted, outcome.limit.window_ns), outcome.limit.count);
  });
}

TEST_F(Bound, OfAFixedWindowIsItsLimitInEachWindow) {
  check_model([&] {
    const Outcome outcome = play(Kind::kFixedWindow);
    const Wide window = outcome.limit.window_ns;
    Wide sum = 0;
    Wide start = -window;
    for (const auto& entry : outcome.admitted) {
      if (entry.at >= start + window) {
        start = outcome.limit.anchor_first ? entry.at : entry.at / window * window;
        sum = 0;
      }
      sum += entry.units;
      is_at_most(sum, outcome.limit.count);
    }
  });
}

TEST_F(Bound, OfASlidingCounterIsTwiceItsLimitInAnyWindow) {
  check_model([&] {
    const Outcome outcome = play(Kind::kSlidingCounter);
    const Wide most = most_within(outcome.admitted, outcome.limit.window_ns);
    RC_ASSERT(most <= Wide{outcome.limit.count} * 2);
    // Less one, for what is left of the former window, unless that is lost in rounding.
    reached_ = reached_ || most >= Wide{outcome.limit.count} * 2 - 1;
  });
}

TEST_F(Bound, OfATokenBucketIsItsBurstAndItsRate) {
  check_model([&] {
    const Outcome outcome = play(Kind::kTokenBucket);
    const Wide interval = outcome.limit.interval_ns();
    for (std::size_t i = 0; i < outcome.admitted.size(); ++i) {
      Wide sum = 0;
      for (std::size_t j = i; j < outcome.admitted.size(); ++j) {
        sum += outcome.admitted[j].units;
        const Wide elapsed = outcome.admitted[j].at - outcome.admitted[i].at;
        is_at_most(sum, outcome.limit.most() + elapsed / interval);
      }
    }
  });
}

TEST_F(Bound, OfALeakyBucketSpacesCallersAtLeastAnIntervalApart) {
  check_model([&] {
    const Outcome outcome = play(Kind::kLeakyBucket, true);
    for (std::size_t i = 1; i < outcome.admitted.size(); ++i) {
      const Admitted& before = outcome.admitted[i - 1];
      const Admitted& next = outcome.admitted[i];
      is_at_most(before.at + before.delay + before.units * outcome.limit.interval_ns(),
                 next.at + next.delay);
    }
  });
}

// A holder that renews in time keeps its permit; one that does not loses it when its lease ends.
TEST_F(Bound, OfPermitsIsTheLimitAtTheSameTime) {
  check_model([&] {
    const Scenario scenario = any_scenario(Kind::kConcurrency);
    const ModelLimit limit = scenario.limits.front().front();
    Reference model(scenario);
    std::map<PermitId, Wide> expires;
    for (const auto& event : scenario.events) {
      const Decision decision = model.ask(event);
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
      is_at_most(Wide(expires.size()), limit.count);
      RC_ASSERT(Wide{limit.count} - Wide(expires.size()) == Wide{decision.remaining});
    }
  });
}

}  // namespace
}  // namespace sluice::conformance
