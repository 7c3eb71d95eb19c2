// Several threads at one instant are admitted exactly what one thread would be.

#include <atomic>
#include <latch>
#include <thread>

#include "conformance/every_store.h"
#include "conformance/subject.h"

namespace sluice::conformance {
namespace {

using model::Kind;

constexpr Instant kNow = 1'700'000'000'123'456'789;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kLimit = 2000;
constexpr int kTries = 2500;

struct Hammer {
  int threads = 2;
  /// Makes one attempt; returns how many requests were admitted.
  std::function<std::int64_t(int thread)> attempt;
};

std::int64_t admitted_by(const Hammer& hammer) {
  std::atomic<std::int64_t> admitted{0};
  std::latch start(hammer.threads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < hammer.threads; ++thread) {
    threads.emplace_back([&, thread] {
      start.arrive_and_wait();
      for (int i = 0; i < kTries; ++i) admitted += hammer.attempt(thread);
    });
  }
  for (auto& thread : threads) thread.join();
  return admitted;
}

model::ModelLimit limit_of(Kind kind) {
  return {.kind = kind, .count = kLimit, .window_ns = 10 * kSecond, .queue = kLimit - 1};
}

std::vector<model::ModelLimits> every_kind() {
  std::vector<model::ModelLimits> limits;
  for (const Kind kind : {Kind::kFixedWindow, Kind::kSlidingLog, Kind::kSlidingWindow,
                          Kind::kSlidingCounter, Kind::kTokenBucket, Kind::kLeakyBucket}) {
    limits.push_back({limit_of(kind)});
  }
  limits.push_back({limit_of(Kind::kFixedWindow), limit_of(Kind::kTokenBucket)});
  limits.push_back({limit_of(Kind::kSlidingLog), limit_of(Kind::kLeakyBucket)});
  return limits;
}

TEST_P(EveryStore, ThreadsOnOneKeyGetWhatOneWould) {
  for (const auto& limits : every_kind()) {
    for (const int threads : {2, 4}) {
      SCOPED_TRACE(expression(limits) + ", threads: " + std::to_string(threads));
      Subject subject(GetParam(), {.limits = {limits}, .events = {}});
      const auto attempt = [&](int) { return subject.ask({.now = kNow}).allowed ? 1 : 0; };
      EXPECT_EQ(admitted_by({threads, attempt}), kLimit);
      EXPECT_EQ(subject.ask({.cost = 0, .now = kNow}).remaining, 0);
    }
  }
}

TEST_P(EveryStore, ThreadsInBatchesGetWhatOneWould) {
  for (const auto& limits : every_kind()) {
    SCOPED_TRACE(expression(limits));
    Subject subject(GetParam(), {.limits = {limits, {limit_of(Kind::kTokenBucket)}}, .events = {}});
    const std::vector<Event> batch{
        {.now = kNow}, {.limit = 1, .key = 1, .now = kNow}, {.key = 1, .now = kNow}, {.now = kNow}};
    const auto attempt = [&](int) {
      std::int64_t admitted = 0;
      for (const auto& decision : subject.ask_batch(batch)) admitted += decision.allowed ? 1 : 0;
      return admitted;
    };
    EXPECT_EQ(admitted_by({4, attempt}), 3 * kLimit);
  }
}

TEST_P(EveryStore, ThreadsWithListsInBothOrdersGetWhatOneWould) {
  for (const auto& limits : every_kind()) {
    SCOPED_TRACE(expression(limits));
    Subject subject(GetParam(), {.limits = {limits}, .events = {}});
    const std::vector<Event> forwards{{.key = 0, .now = kNow}, {.key = 1, .now = kNow}};
    const std::vector<Event> backwards{forwards[1], forwards[0]};
    const auto attempt = [&](int thread) {
      return subject.ask_all(thread % 2 == 0 ? forwards : backwards).allowed ? 1 : 0;
    };
    EXPECT_EQ(admitted_by({4, attempt}), kLimit);
    for (std::size_t key : {0U, 1U}) {
      EXPECT_EQ(subject.ask({.key = key, .cost = 0, .now = kNow}).remaining, 0);
    }
  }
}

// Half of the threads take both keys, the others one of them; each key must come out exactly used.
TEST_P(EveryStore, ThreadsWithListsAndSinglesNeverOverdraw) {
  for (const auto& limits : every_kind()) {
    SCOPED_TRACE(expression(limits));
    Subject subject(GetParam(), {.limits = {limits}, .events = {}});
    std::atomic<std::int64_t> pairs{0};
    std::atomic<std::int64_t> singles{0};
    const std::vector<Event> both{{.key = 0, .now = kNow}, {.key = 1, .now = kNow}};
    const auto attempt = [&](int thread) {
      const bool list = thread % 2 == 0;
      const Decision decision = list ? subject.ask_all(both) : subject.ask(both[0]);
      (list ? pairs : singles) += decision.allowed ? 1 : 0;
      return std::int64_t{0};
    };
    admitted_by({4, attempt});
    EXPECT_EQ(pairs + singles, kLimit);
    EXPECT_EQ(subject.ask({.key = 1, .cost = 0, .now = kNow}).remaining, kLimit - pairs);
  }
}

TEST_P(EveryStore, ThreadsThatTakeAndGiveBackLeaveNothingBehind) {
  for (const auto& limits : every_kind()) {
    SCOPED_TRACE(expression(limits));
    Subject subject(GetParam(), {.limits = {limits}, .events = {}});
    const auto attempt = [&](int) {
      const bool allowed = subject.ask({.now = kNow}).allowed;
      if (allowed) subject.ask({.operation = Operation::kRefund, .now = kNow});
      return allowed ? 1 : 0;
    };
    EXPECT_EQ(admitted_by({4, attempt}), 4 * kTries);
    EXPECT_EQ(subject.ask({.cost = 0, .now = kNow}).remaining, kLimit);
  }
}

}  // namespace
}  // namespace sluice::conformance
