// Several threads at one instant get exactly as many admissions as one thread would.

#include <atomic>
#include <thread>

#include "conformance/every_store.h"
#include "conformance/scenario.h"
#include "conformance/subject.h"
#include "testing/on_threads.h"

namespace sluice::conformance {
namespace {

using model::Kind;
using model::ModelLimit;

constexpr Instant kNow = 1'700'000'000'123'456'789;
constexpr std::int64_t kSecond = 1'000'000'000;
// More attempts than the limit admits.
struct Rush {
  explicit Rush(const StoreCase& store) : limit(scaled(2000, store)), tries(limit * 5 / 4) {}

  std::int64_t limit;
  std::int64_t tries;
};

struct Hammer {
  std::int64_t tries = 0;
  std::size_t threads = 2;
  /// Makes one attempt; returns how many requests were admitted.
  std::function<std::int64_t(std::size_t thread)> attempt;
};

std::int64_t admitted_by(const Hammer& hammer) {
  std::atomic<std::int64_t> admitted{0};
  on_threads(hammer.threads, [&](std::size_t thread) {
    for (std::int64_t i = 0; i < hammer.tries; ++i) admitted += hammer.attempt(thread);
  });
  return admitted;
}

ModelLimit limit_of(Kind kind, const Rush& rush) {
  return {.kind = kind, .count = rush.limit, .window_ns = 10 * kSecond, .queue = rush.limit - 1};
}

std::vector<model::ModelLimits> every_kind(const Rush& rush) {
  std::vector<model::ModelLimits> limits;
  for (const Kind kind : kSpendingKinds) limits.push_back({limit_of(kind, rush)});
  limits.push_back({limit_of(Kind::kFixedWindow, rush), limit_of(Kind::kTokenBucket, rush)});
  limits.push_back({limit_of(Kind::kSlidingLog, rush), limit_of(Kind::kLeakyBucket, rush)});
  return limits;
}

TEST_P(EveryStore, ThreadsOnOneKeyGetWhatOneWould) {
  const Rush rush(GetParam());
  for (const auto& limits : every_kind(rush)) {
    for (const std::size_t threads : {2, 4}) {
      SCOPED_TRACE(expression(limits) + ", threads: " + std::to_string(threads));
      Subject subject(GetParam(), {.limits = {limits}, .events = {}});
      const auto attempt = [&](std::size_t) { return subject.ask({.now = kNow}).allowed ? 1 : 0; };
      EXPECT_EQ(admitted_by({rush.tries, threads, attempt}), rush.limit);
      EXPECT_EQ(subject.ask({.cost = 0, .now = kNow}).remaining, 0);
    }
  }
}

TEST_P(EveryStore, ThreadsInBatchesGetWhatOneWould) {
  const Rush rush(GetParam());
  for (const auto& limits : every_kind(rush)) {
    SCOPED_TRACE(expression(limits));
    Subject subject(GetParam(),
                    {.limits = {limits, {limit_of(Kind::kTokenBucket, rush)}}, .events = {}});
    const std::vector<Event> batch{
        {.now = kNow}, {.limit = 1, .key = 1, .now = kNow}, {.key = 1, .now = kNow}, {.now = kNow}};
    const auto attempt = [&](std::size_t) {
      std::int64_t admitted = 0;
      for (const auto& decision : subject.ask_batch(batch)) admitted += decision.allowed ? 1 : 0;
      return admitted;
    };
    EXPECT_EQ(admitted_by({rush.tries, 4, attempt}), 3 * rush.limit);
  }
}

// One key under one limit in two spaces: a list that every store with lists supports.
TEST_P(EveryStore, ThreadsWithListsInBothOrdersGetWhatOneWould) {
  const Rush rush(GetParam());
  for (const auto& limits : every_kind(rush)) {
    SCOPED_TRACE(expression(limits));
    Subject subject(GetParam(), {.limits = {limits, limits}, .events = {}});
    const std::vector<Event> forwards{{.limit = 0, .now = kNow}, {.limit = 1, .now = kNow}};
    const std::vector<Event> backwards{forwards[1], forwards[0]};
    if (GetParam().lists == Lists::kOne) {
      EXPECT_THROW(subject.ask_all(forwards), std::invalid_argument);
      continue;
    }
    const auto attempt = [&](std::size_t thread) {
      return subject.ask_all(thread % 2 == 0 ? forwards : backwards).allowed ? 1 : 0;
    };
    EXPECT_EQ(admitted_by({rush.tries, 4, attempt}), rush.limit);
    for (std::size_t limit : {0U, 1U}) {
      EXPECT_EQ(subject.ask({.limit = limit, .cost = 0, .now = kNow}).remaining, 0);
    }
  }
}

// Half of the threads take from both limits, the others from one; each must be used up exactly.
TEST_P(EveryStore, ThreadsWithListsAndSinglesNeverOverdraw) {
  const Rush rush(GetParam());
  for (const auto& limits : every_kind(rush)) {
    SCOPED_TRACE(expression(limits));
    Subject subject(GetParam(), {.limits = {limits, limits}, .events = {}});
    std::atomic<std::int64_t> pairs{0};
    std::atomic<std::int64_t> singles{0};
    const std::vector<Event> both{{.limit = 0, .now = kNow}, {.limit = 1, .now = kNow}};
    if (GetParam().lists == Lists::kOne) {
      EXPECT_THROW(subject.ask_all(both), std::invalid_argument);
      continue;
    }
    const auto attempt = [&](std::size_t thread) {
      const bool list = thread % 2 == 0;
      const Decision decision = list ? subject.ask_all(both) : subject.ask(both[0]);
      (list ? pairs : singles) += decision.allowed ? 1 : 0;
      return std::int64_t{0};
    };
    admitted_by({rush.tries, 4, attempt});
    EXPECT_EQ(pairs + singles, rush.limit);
    EXPECT_EQ(subject.ask({.limit = 1, .cost = 0, .now = kNow}).remaining, rush.limit - pairs);
  }
}

TEST_P(EveryStore, ThreadsThatTakeAndRefundLeaveTheKeyFresh) {
  const Rush rush(GetParam());
  for (const auto& limits : every_kind(rush)) {
    SCOPED_TRACE(expression(limits));
    Subject subject(GetParam(), {.limits = {limits}, .events = {}});
    const auto attempt = [&](std::size_t) {
      const bool allowed = subject.ask({.now = kNow}).allowed;
      if (allowed) subject.ask({.operation = Operation::kRefund, .now = kNow});
      return allowed ? 1 : 0;
    };
    EXPECT_EQ(admitted_by({rush.tries, 4, attempt}), 4 * rush.tries);
    EXPECT_EQ(subject.ask({.cost = 0, .now = kNow}).remaining, rush.limit);
  }
}

TEST_P(EveryStore, ThreadsNeverHoldMorePermitsThanTheLimit) {
  const Rush rush(GetParam());
  constexpr std::int64_t kPermits = 3;
  const ModelLimit limit{.kind = Kind::kConcurrency, .count = kPermits, .window_ns = 10 * kSecond};
  Subject subject(GetParam(), {.limits = {{limit}}, .events = {}});
  std::atomic<PermitId> last_permit{0};
  std::atomic<std::int64_t> held{0};
  std::atomic<std::int64_t> lost{0};
  std::atomic<bool> too_many{false};
  const auto attempt = [&](std::size_t thread) {
    const PermitId permit = ++last_permit;
    if (!subject.ask({.permit = permit, .now = kNow}).allowed) return 0;
    if (++held > kPermits) too_many = true;
    if (thread == 0) std::this_thread::yield();
    lost += subject.ask({.operation = Operation::kRenew, .permit = permit, .now = kNow}).allowed
                ? 0
                : 1;
    --held;
    lost += subject.ask({.operation = Operation::kRelease, .permit = permit, .now = kNow}).allowed
                ? 0
                : 1;
    return 1;
  };
  EXPECT_GT(admitted_by({rush.tries, 5, attempt}), 0);
  EXPECT_FALSE(too_many);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(subject.ask({.cost = 0, .now = kNow}).remaining, kPermits);
}

TEST_P(EveryStore, ThreadsThatTakeWhatRemainsLeaveNothing) {
  const Rush rush(GetParam());
  for (const auto& limits : every_kind(rush)) {
    SCOPED_TRACE(expression(limits));
    Subject subject(GetParam(), {.limits = {limits}, .events = {}});
    const auto attempt = [&](std::size_t thread) {
      const Decision decision = subject.ask({.operation = Operation::kTakeUpTo,
                                             .cost = static_cast<std::int64_t>(3 + 4 * thread),
                                             .now = kNow});
      EXPECT_EQ(decision.allowed, decision.taken > 0);
      return decision.taken;
    };
    EXPECT_EQ(admitted_by({rush.tries / 4, 4, attempt}), rush.limit);
  }
}

}  // namespace
}  // namespace sluice::conformance
