// The promises of a decision's fields, checked with the store itself: a denial changes nothing,
// retry_after is the shortest wait that works, and after reset_after the key is fresh.

#include <sstream>

#include "conformance/every_store.h"
#include "conformance/scenario.h"
#include "conformance/subject.h"

namespace sluice::conformance {
namespace {

// Among so many, some have the denial that a test is about.
constexpr int kEnoughCases = 20;

void must(bool holds, const std::string& what, const Scenario& scenario, const Event& event,
          const std::vector<Decision>& decisions) {
  if (holds) return;
  std::ostringstream message;
  message << what << ": " << describe(scenario, event);
  for (const auto& decision : decisions) {
    message << "\n  ";
    showValue(decision, message);
  }
  RC_FAIL(message.str());
}

// Two kinds of scenario: limits that spend units, some joined by `&`, and these with permits.
Wanted any_of(Wanted wanted) {
  if (*rc::gen::element(false, false, true)) {
    wanted.kinds = kEveryKind;
    wanted.most_parts = 1;
  } else {
    wanted.most_parts = 3;
  }
  wanted.charges = true;
  wanted.take_up_to = true;
  wanted.blocks = true;
  return wanted;
}

TEST_P(EveryStore, ADenialOrAPeekChangesNothing) {
  check(GetParam(), 200, [&] {
    const Wanted wanted = any_of({.most_limits = 3});
    const Scenario scenario = *scenarios(GetParam(), wanted);
    Subject subject(GetParam(), scenario);
    Subject twin(GetParam(), scenario);
    for (const auto& event : scenario.events) {
      const Decision decision = subject.ask(event);
      if (!decision.allowed || !changes(event)) continue;
      const Decision undisturbed = twin.ask(event);
      must(decision == undisturbed, "differs from a store that saw no denials and no peeks",
           scenario, event, {decision, undisturbed});
    }
  });
}

TEST_P(EveryStore, AFailedListChangesNothing) {
  const Wanted wanted{.most_limits = 5, .most_parts = 2};
  check(GetParam(), 150, [&] {
    const Scenario scenario = *scenarios(GetParam(), wanted);
    Subject subject(GetParam(), scenario);
    Subject twin(GetParam(), scenario);
    for (const Stretch stretch : stretches(scenario.events)) {
      const auto list = as_list(scenario, stretch, GetParam().lists);
      if (list.empty()) continue;
      const Decision decision = subject.ask_all(list);
      if (!decision.allowed) continue;
      const Decision undisturbed = twin.ask_all(list);
      must(decision == undisturbed, "differs from a store that saw no denied list", scenario,
           list.front(), {decision, undisturbed});
    }
  });
}

TEST_P(EveryStore, APeekSaysWhatTheNextDecisionSees) {
  const Wanted wanted{.most_limits = 3, .most_parts = 3, .patience = false, .borrow = false};
  check(GetParam(), 100, [&] {
    const Scenario scenario = *scenarios(GetParam(), wanted);
    Subject subject(GetParam(), scenario);
    for (const auto& event : scenario.events) {
      Event peek = event;
      peek.cost = 0;
      const Decision seen = subject.ask(peek);
      must(seen.allowed && seen.retry_after.count() == 0 && seen.delay.count() == 0,
           "a peek is allowed and waits for nothing", scenario, peek, {seen});
      const Decision decision = subject.ask(event);
      must(decision.allowed == (event.cost <= seen.remaining),
           "remaining is the most that is admitted", scenario, event, {seen, decision});
    }
  });
}

// The denials of a scenario with a finite retry_after that ends before the end of time.
std::vector<std::size_t> hopeful_denials(Subject& subject, const Scenario& scenario,
                                         std::vector<Decision>& decisions) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < scenario.events.size(); ++i) {
    const Event& event = scenario.events[i];
    decisions.push_back(subject.ask(event));
    const Decision& decision = decisions.back();
    if (decision.allowed || decision.retry_after == kNever) continue;
    if (decision.retry_after.count() < kEndOfTime - event.now) found.push_back(i);
  }
  return found;
}

TEST_P(EveryStore, RetryAfterIsTheShortestWaitThatWorks) {
  int tried = 0;
  check(GetParam(), 300, [&] {
    const Wanted wanted = any_of({.most_limits = 2, .borrow = false});
    const Scenario scenario = *scenarios(GetParam(), wanted);
    Subject first(GetParam(), scenario);
    std::vector<Decision> decisions;
    const auto denials = hopeful_denials(first, scenario, decisions);
    if (denials.empty()) return;
    ++tried;
    const std::size_t chosen = *rc::gen::elementOf(denials);
    Subject again(GetParam(), scenario);
    for (std::size_t i = 0; i < chosen; ++i) again.ask(scenario.events[i]);

    const Decision& denied = decisions[chosen];
    Event retry = scenario.events[chosen];
    retry.now += denied.retry_after.count() - 1;
    const Decision early = again.ask(retry);
    must(!early.allowed, "admitted a nanosecond before its retry_after", scenario, retry,
         {denied, early});
    ++retry.now;
    const Decision right = again.ask(retry);
    must(right.allowed, "denied at its retry_after", scenario, retry, {denied, right});
  });
  EXPECT_TRUE(tried > 0 || scaled(300, GetParam()) < kEnoughCases);
}

TEST_P(EveryStore, KNeverMeansNever) {
  int tried = 0;
  check(GetParam(), 100, [&] {
    const Wanted wanted = any_of({.most_limits = 2});
    const Scenario scenario = *scenarios(GetParam(), wanted);
    Subject subject(GetParam(), scenario);
    for (const auto& event : scenario.events) {
      const Decision decision = subject.ask(event);
      if (decision.allowed || decision.retry_after != kNever) continue;
      ++tried;
      for (Event later = event; later.now < kEndOfTime - 1;) {
        later.now += (kEndOfTime - later.now) / 2;
        const Decision still = subject.ask(later);
        must(!still.allowed, "admitted after all", scenario, later, {decision, still});
      }
    }
  });
  EXPECT_TRUE(tried > 0 || scaled(100, GetParam()) < kEnoughCases);
}

// After the scenario, no request is sent for the key of its last event until its reset_after has
// passed; from then on it must behave as a key that was never seen.
TEST_P(EveryStore, AfterResetAfterTheKeyIsFresh) {
  constexpr std::size_t kNeverSeen = 2;
  check(GetParam(), 300, [&] {
    const Wanted wanted = any_of({.most_limits = 1, .keys = 2});
    const Scenario scenario = *scenarios(GetParam(), wanted);
    const auto& events = scenario.events;
    const std::size_t half = events.size() / 2;
    if (half == 0) return;
    Subject subject(GetParam(), scenario);
    for (std::size_t i = 0; i < half; ++i) subject.ask(events[i]);

    Event peek = events[half - 1];
    peek.operation = Operation::kTake;
    peek.cost = 0;
    peek.wants_parts = true;
    const Answer seen = subject.ask(peek);
    std::int64_t reset_ns = 0;  // Until all parts are fresh.
    for (const Decision& part : seen.parts) {
      reset_ns = std::max(reset_ns, std::int64_t{part.reset_after.count()});
    }
    must(reset_ns >= 0, "reset_after is negative", scenario, peek, {seen});
    for (std::size_t i = half; i < events.size(); ++i) {
      Event event = events[i];
      event.key = peek.key;
      const std::int64_t start = i == half ? 0 : std::max<std::int64_t>(event.now - peek.now, 0);
      if (reset_ns >= kEndOfTime - peek.now - start) return;
      event.now = peek.now + reset_ns + start;
      const Decision used = subject.ask(event);
      event.key = kNeverSeen;
      const Decision fresh = subject.ask(event);
      must(used == fresh, "differs from a key never seen", scenario, event, {seen, used, fresh});
    }
  });
}

TEST_P(EveryStore, AfterAResetTheKeyIsFresh) {
  check(GetParam(), 100, [&] {
    const Wanted wanted = any_of({.most_limits = 1});
    const Scenario scenario = *scenarios(GetParam(), wanted);
    const auto& events = scenario.events;
    const std::size_t half = events.size() / 2;
    Subject subject(GetParam(), scenario);
    Subject fresh(GetParam(), scenario);
    for (std::size_t i = 0; i < half; ++i) subject.ask(events[i]);
    for (std::size_t key = 0; key < wanted.keys; ++key) {
      subject.ask({.key = key, .operation = Operation::kReset});
    }
    for (std::size_t i = half; i < events.size(); ++i) {
      const Decision used = subject.ask(events[i]);
      const Decision expected = fresh.ask(events[i]);
      must(used == expected, "differs from a key never seen", scenario, events[i],
           {used, expected});
    }
  });
}

// No decision contradicts itself.
TEST_P(EveryStore, DecisionsStayInRange) {
  check(GetParam(), 200, [&] {
    const Wanted wanted = any_of({.most_limits = 3, .refunds = true, .resets = true});
    const Scenario scenario = *scenarios(GetParam(), wanted);
    Subject subject(GetParam(), scenario);
    for (const auto& event : scenario.events) {
      const Decision d = subject.ask(event);
      const bool waits = d.allowed ? d.retry_after.count() == 0
                                   : d.retry_after.count() >= 1 || d.retry_after == kNever;
      must(waits && d.remaining >= 0 && d.remaining <= d.limit && d.reset_after.count() >= 0 &&
               d.delay.count() >= 0 && (d.allowed || d.delay.count() == 0) &&
               d.source == Source::kStore,
           "contradicts itself", scenario, event, {d});
      const bool gives_or_charges =
          event.operation == Operation::kRefund || event.operation == Operation::kCharge ||
          event.operation == Operation::kBlock || event.operation == Operation::kReset;
      must(d.allowed || !gives_or_charges, "is never denied", scenario, event, {d});
      const bool some = event.operation == Operation::kTakeUpTo && d.allowed && event.cost > 0;
      must(some ? d.taken >= 1 && d.taken <= event.cost : d.taken == 0, "took something else",
           scenario, event, {d});
    }
  });
}

}  // namespace
}  // namespace sluice::conformance
