// The store decides as the naive model does, field by field.

#include <gmock/gmock.h>

#include <algorithm>
#include <span>
#include <sstream>

#include "conformance/every_store.h"
#include "conformance/scenario.h"
#include "conformance/subject.h"
#include "testing/error_of.h"
#include "testing/limited_keys.h"

namespace sluice::conformance {
namespace {

using model::Kind;

void expect_same(const Scenario& scenario, std::size_t index, const Answer& store,
                 const Answer& expected) {
  if (store == expected) return;
  std::ostringstream message;
  message << "#" << index << " " << describe(scenario, scenario.events[index]) << "\n  store ";
  showValue(store, message);
  message << "\n  model ";
  showValue(expected, message);
  RC_FAIL(message.str());
}

// Compares the store with the model, one request at a time. In half of the cases, a store that can
// be restarted is, now and then.
void compare(const StoreCase& store, const Wanted& wanted) {
  const Scenario scenario = *scenarios(store, wanted);
  const bool restarts = store.restart && *rc::gen::arbitrary<bool>();
  Subject subject(store, scenario, wanted.one_space);
  Reference reference(scenario, wanted.one_space);
  for (std::size_t i = 0; i < scenario.events.size(); ++i) {
    if (restarts && i % 16 == 15) {
      const std::span rest(scenario.events.begin() + static_cast<std::ptrdiff_t>(i),
                           scenario.events.end());
      subject.restart(std::ranges::min(rest, {}, &Event::now).now);
    }
    const Event& event = scenario.events[i];
    expect_same(scenario, i, subject.ask(event), reference.ask(event));
  }
}

// Adds all operations.
Wanted of_all(Wanted wanted) {
  wanted.refunds = true;
  wanted.charges = true;
  wanted.take_up_to = true;
  wanted.blocks = true;
  wanted.resets = true;
  return wanted;
}

// Includes clocks that are set back, and all operations.
void agrees(const StoreCase& store, const Wanted& wanted, int cases) {
  check(store, cases, [&] { compare(store, of_all(wanted)); });
}

TEST_P(EveryStore, AgreesOnEachAlgorithm) {
  for (const Kind kind : kSpendingKinds) agrees(GetParam(), {.kinds = {kind}}, 300);
}

TEST_P(EveryStore, AgreesOnJoinedParts) {
  agrees(GetParam(), {.least_parts = 2, .most_parts = 8}, 300);
}

TEST_P(EveryStore, AgreesOnPermits) {
  agrees(GetParam(), {.kinds = {Kind::kConcurrency}, .most_limits = 1}, 200);
}

TEST_P(EveryStore, AgreesOnPermitsAndLimitsSideBySide) {
  agrees(GetParam(), {.kinds = kEveryKind, .most_limits = 5}, 100);
}

TEST_P(EveryStore, AgreesWhenTheNumberOfPermitsChanges) {
  const Wanted wanted{.kinds = {Kind::kConcurrency}, .most_limits = 4, .one_space = true};
  agrees(GetParam(), wanted, 100);
}

TEST_P(EveryStore, AgreesOnAMixtureOfLimits) {
  agrees(GetParam(), {.most_limits = 5, .most_parts = 3}, 200);
}

TEST_P(EveryStore, AgreesWhenTheNumbersOfALimitChange) {
  agrees(GetParam(), {.most_limits = 4, .one_space = true}, 200);
}

// Where the sum of what counts and what is left is rounded to more than the limit.
TEST_P(EveryStore, TakesWhatRoundingLeaves) {
  const Scenario scenario{
      .limits = {{{.kind = Kind::kSlidingCounter, .count = kMaxCount, .window_ns = 2}}},
      .events = {}};
  Subject subject(GetParam(), scenario);
  EXPECT_TRUE(subject.ask({.cost = 3}).allowed);
  const Event most{.operation = Operation::kTakeUpTo, .cost = kMaxCount, .now = 3};
  EXPECT_EQ(subject.ask(most).taken, kMaxCount - 2);
}

// If the states of a space have no meaning under a limit, its keys are fresh under it.
TEST_P(EveryStore, NeverReadsTheStatesOfAnotherAlgorithm) {
  const std::vector<std::string> expressions{
      "fixed_window 5/1m",    "fixed_window 5/2m",      "fixed_window 5/1m anchor=first",
      "sliding_log 5/1m",     "sliding_log 5/2m",       "sliding_window 5/1m precision=6s",
      "sliding_counter 5/1m", "token_bucket 5/1m",      "sliding_window 5/1m precision=7s",
      "sliding_counter 5/2m", "concurrency 5 lease=1m", "token_bucket 5/1m & token_bucket 5/1m"};
  for (const auto& first : expressions) {
    for (const auto& second : expressions) {
      if (first == second) continue;
      SCOPED_TRACE(first + ", then " + second);
      const auto store = GetParam().open();
      const auto remaining = [&](const std::string& expression, std::int64_t taken) {
        const Limit limit(expression, "space");
        const auto space = store->open_space(limit.definition());
        Decision decision;
        for (std::int64_t i = 0; i <= taken; ++i) {
          const Request request{.limit = &limit.definition(),
                                .space = space.get(),
                                .key = "k",
                                .cost = i < taken ? 1 : 0,
                                .permit = static_cast<PermitId>(i + 1)};
          decision = store->decide_one(request, 1000);
        }
        return decision.remaining;
      };
      EXPECT_EQ(remaining(first, 2), 3);
      EXPECT_EQ(remaining(second, 0), 5);
      EXPECT_EQ(remaining(first, 0), GetParam().keeps_unread_states ? 3 : 5);
    }
  }
}

// A block does not count under a limit that cannot read the key's state.
TEST_P(EveryStore, ABlockGoesWithTheStatesOfAnotherAlgorithm) {
  const auto store = GetParam().open();
  const Limit window("fixed_window 5/1m", "space");
  const Limit bucket("token_bucket 5/1m", "space");
  const auto ask = [&](const Limit& limit, std::string_view key, Operation operation) {
    const auto space = store->open_space(limit.definition());
    const Request request{.limit = &limit.definition(),
                          .space = space.get(),
                          .key = key,
                          .operation = operation,
                          .duration_ns = 1'000'000};
    return store->decide_one(request, 1000);
  };
  ask(window, "used", Operation::kTake);
  for (const std::string_view key : {"used", "fresh"}) {
    ask(window, key, Operation::kBlock);
    EXPECT_FALSE(ask(window, key, Operation::kTake).allowed) << key;
    EXPECT_TRUE(ask(bucket, key, Operation::kTake).allowed) << key;
  }
}

TEST_P(EveryStore, ABatchAnswersAsOneByOne) {
  check(GetParam(), 150, [&] {
    const Wanted spends{.most_limits = 4, .most_parts = 3, .in_order = true};
    const Wanted lends{.kinds = kEveryKind, .most_limits = 4, .in_order = true};
    const Wanted wanted = of_all(*rc::gen::element(spends, lends));
    const Scenario scenario = *scenarios(GetParam(), wanted);
    Subject subject(GetParam(), scenario);
    Reference reference(scenario);
    for (const Stretch stretch : stretches(scenario.events)) {
      const std::span<const Event> batch(&scenario.events[stretch.begin],
                                         stretch.end - stretch.begin);
      const auto decisions = subject.ask_batch(batch);
      for (std::size_t i = stretch.begin; i < stretch.end; ++i) {
        expect_same(scenario, i, decisions[i - stretch.begin], reference.ask(scenario.events[i]));
      }
    }
  });
}

TEST_P(EveryStore, ALargeBatchAnswersAsOneByOne) {
  const Wanted wanted{.most_limits = 4, .most_parts = 2, .in_order = true};
  check(GetParam(), 40, [&] {
    Scenario scenario = *scenarios(GetParam(), wanted);
    if (scenario.events.empty()) return;
    for (auto& event : scenario.events) event.now = scenario.events.front().now;
    Subject subject(GetParam(), scenario);
    Reference reference(scenario);
    const auto decisions = subject.ask_batch(scenario.events);
    for (std::size_t i = 0; i < decisions.size(); ++i) {
      expect_same(scenario, i, decisions[i], reference.ask(scenario.events[i]));
    }
  });
}

TEST_P(EveryStore, AListIsChargedAllOrNone) {
  const Wanted wanted = of_all({.most_limits = 6, .most_parts = 2});
  check(GetParam(), 200, [&] {
    const Scenario scenario = *scenarios(GetParam(), wanted);
    Subject subject(GetParam(), scenario);
    Reference reference(scenario);
    for (const Stretch stretch : stretches(scenario.events)) {
      for (std::size_t i = stretch.begin; i < stretch.end; ++i) {
        const Event& event = scenario.events[i];
        if (event.operation == Operation::kTake) continue;
        expect_same(scenario, i, subject.ask(event), reference.ask(event));
      }
      const auto list = as_list(scenario, stretch, GetParam().lists);
      if (list.empty()) continue;
      const Answer expected = reference.ask_all(list);
      expect_same(scenario, stretch.begin, subject.ask_all(list), expected);
      // Checks that each key has, or has not, been charged.
      for (std::size_t i = stretch.begin; i < stretch.end; ++i) {
        Event peek = scenario.events[i];
        peek.operation = Operation::kTake;
        peek.cost = 0;
        expect_same(scenario, i, subject.ask(peek), reference.ask(peek));
      }
    }
  });
}

TEST_P(EveryStore, RejectsAListThatNamesAKeyTwice) {
  const Scenario scenario{.limits = {{{.count = 5, .window_ns = 10}}}, .events = {}};
  Subject subject(GetParam(), scenario);
  const std::vector<Event> twice{{.key = 0}, {.key = 1}, {.key = 0}};
  EXPECT_THROW(subject.ask_all(twice), std::invalid_argument);
  EXPECT_EQ(subject.ask({.key = 0}).remaining, 4);
  EXPECT_EQ(subject.ask({.key = 1}).remaining, 4);
}

TEST_P(EveryStore, RejectsAListWithPermits) {
  const Scenario scenario{.limits = {{{.kind = Kind::kConcurrency, .count = 5, .window_ns = 10}}},
                          .events = {}};
  Subject subject(GetParam(), scenario);
  EXPECT_THROW(subject.ask_all(std::vector<Event>{{.permit = 1}}), std::invalid_argument);
  EXPECT_EQ(subject.ask({.cost = 0}).remaining, 5);
}

TEST_P(EveryStore, RejectsAListThatDoesNotTake) {
  const Scenario scenario{.limits = {{{.count = 5, .window_ns = 10}}}, .events = {}};
  Subject subject(GetParam(), scenario);
  const std::vector<Event> charge{{.operation = Operation::kCharge}};
  EXPECT_THROW(subject.ask_all(charge), std::invalid_argument);
  EXPECT_EQ(subject.ask({.cost = 0}).remaining, 5);
}

TEST_P(EveryStore, RejectsAListThatIsTooLong) {
  Scenario scenario;
  std::vector<Event> list;
  for (std::size_t i = 0; i <= kMaxTogether; ++i) {
    scenario.limits.push_back({{.count = 5, .window_ns = 10}});
    list.push_back({.limit = i});
  }
  Subject subject(GetParam(), scenario);
  EXPECT_THROW(subject.ask_all(list), std::invalid_argument);
  EXPECT_EQ(subject.ask({.cost = 0}).remaining, 5);
  list.pop_back();
  if (GetParam().lists == Lists::kOne) list.resize(1);
  EXPECT_TRUE(subject.ask_all(list).allowed);
}

TEST_P(EveryStore, ASpaceIsTakenOverOnlyWhereNobodyHoldsIt) {
  const auto store = GetParam().open();
  const auto open = [&](const std::string& expression) {
    return LimitedKeys(*store, expression, "login");
  };
  {
    LimitedKeys window = open("fixed_window 5/1h");
    window.take("k", 1000);
    EXPECT_EQ(open("fixed_window 6/1h").space(), window.space());
    for (const std::string other :
         {"sliding_log 5/1h", "fixed_window 5/2h", "fixed_window 5/1h & sliding_log 5/1h"}) {
      EXPECT_THAT(
          error_of([&] { open(other); }),
          testing::HasSubstr("the keys of 'login' are those of 'fixed_window 5/1h', which '" +
                             other + "' cannot take over while others use them"));
    }
    EXPECT_EQ(window.peek("k", 1000).remaining, 4);
  }
  EXPECT_EQ(open("sliding_log 5/1h").take("k", 1000).remaining, 4);
}

TEST_P(EveryStore, KeysAndSpacesAreIndependent) {
  const auto store = GetParam().open();
  const Limit minute("token_bucket 60/1m");
  const Limit sixty_seconds("token_bucket 60/60s");
  const Limit named("token_bucket 60/1m", "login");
  const auto ask = [&](const Limit& limit) {
    const auto space = store->open_space(limit.definition());
    const Request request{.limit = &limit.definition(), .space = space.get(), .key = "k"};
    return store->decide_one(request, 1000).remaining;
  };
  const auto keep = store->open_space(minute.definition());
  const auto keep_named = store->open_space(named.definition());
  EXPECT_EQ(ask(minute), 59);
  EXPECT_EQ(ask(sixty_seconds), 58);
  EXPECT_EQ(ask(named), 59);
  EXPECT_EQ(ask(named), 58);
}

}  // namespace
}  // namespace sluice::conformance
