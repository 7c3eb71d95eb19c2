#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "testing/manual_timer_queue.h"
#include "testing/scripted_store.h"
#include "waiting/wait_queues.h"

namespace sluice {

/// A binding whose waiting callers go by this timer.
inline std::shared_ptr<LimitBinding> bind_to_timer(
    const std::shared_ptr<Store>& store, const Limit& limit, LimitBinding::Kind kind,
    const std::shared_ptr<TimerQueue>& timer, std::size_t most_waiting = WaitQueues::kMostWaiting) {
  const auto space = store->open_space(limit.definition());
  space->attachment<WaitQueues>(timer, most_waiting);
  return std::make_shared<LimitBinding>(store, limit, kind, &WaitQueues::of);
}

/// Queues over a store and a clock that do as they are told.
class WaitQueuesFixture : public testing::Test {
 protected:
  struct Options {
    std::int64_t cost = 1;
    std::chrono::nanoseconds timeout = std::chrono::seconds(100);
    std::optional<Decision> denied = std::nullopt;
    std::stop_token stop = {};
    std::string key = "k";
    /// Asks first, if the queue is empty.
    bool directly = false;
  };

  void use(const char* expression, LimitBinding::Kind kind) {
    has_permits_ = kind == LimitBinding::Kind::kPermits;
    binding_ = bind_to_timer(store_, Limit(expression, "limit"), kind, timer_, most_waiting_);
    queues_ = binding_->queues();
  }
  void use_permits() { use("concurrency 1 lease=60s", LimitBinding::Kind::kPermits); }
  void use_window() { use("fixed_window 5/1m", LimitBinding::Kind::kUnits); }
  void answer_later() { store_->answers = ScriptedStore::Answers::kWhenTold; }
  /// Those of a store on another machine, which answers later.
  void use_shared_permits() {
    use_permits();
    answer_later();
  }

  /// Another caller, which has asked or waits when this returns; its permit is its number.
  int come(const Options& options) {
    const int number = ++last_number_;
    AcquireRequest request({.binding = binding_, .key = options.key, .cost = options.cost},
                           timer_->after(options.timeout),
                           has_permits_ ? static_cast<PermitId>(number) : 0);
    const auto done = [this, number](const AcquireOutcome& outcome) {
      EXPECT_TRUE(outcomes_.emplace(number, outcome).second) << "told twice";
      (outcome.decision.allowed ? granted_ : denied_).push_back(number);
    };
    if (options.directly) {
      WaitQueues::acquire(std::move(request), options.stop, done);
    } else {
      std::optional<AcquireOutcome> asked;
      if (options.denied) asked = AcquireOutcome{.decision = *options.denied};
      WaitQueues::wait(std::move(request), asked, options.stop, done);
    }
    timer_->run();
    return number;
  }
  int come() { return come(Options{}); }

  void grant(bool grants) { grants_ = grants; }

  void answer() {
    store_->answer();
    timer_->run();
  }
  /// Answers, and returns how long it takes until the store is asked again.
  std::chrono::nanoseconds next_pause() {
    answer();
    const auto since = timer_->now();
    while (store_->pending() == 0) timer_->pass(std::chrono::nanoseconds(100'000));
    return timer_->now() - since;
  }
  void answer_all() {
    store_->answer_all();
    timer_->run();
  }
  void release(const char* key = "k") {
    queues_->released(key);
    timer_->run();
  }

  /// The permits that were asked for since the last call.
  std::vector<int> asked() {
    std::vector<int> permits;
    for (const auto& asked : store_->asked) {
      if (asked.operation == Operation::kTake) permits.push_back(static_cast<int>(asked.permit));
    }
    store_->asked.clear();
    return permits;
  }

  void SetUp() override {
    store_->says = [this](const Request& request) {
      if (request.operation != Operation::kTake) return Decision{.allowed = true};
      return grants_ ? Decision{.allowed = true} : Decision{.retry_after = retry_after_};
    };
  }

  /// A waiter keeps its queue, and the queue its waiters: all leave with the test.
  void TearDown() override {
    store_->says = [](const Request&) { return Decision{.allowed = true}; };
    do {
      store_->answer_all();
      timer_->pass(std::chrono::seconds(100));
    } while (store_->pending() > 0);
  }

  std::shared_ptr<ManualTimerQueue> timer_ = std::make_shared<ManualTimerQueue>();
  std::shared_ptr<ScriptedStore> store_ = std::make_shared<ScriptedStore>();
  std::size_t most_waiting_ = WaitQueues::kMostWaiting;
  std::shared_ptr<LimitBinding> binding_;
  std::shared_ptr<WaitQueues> queues_;  // Its.
  bool has_permits_ = false;
  bool grants_ = false;
  std::chrono::nanoseconds retry_after_ = std::chrono::seconds(60);
  int last_number_ = 0;
  std::map<int, AcquireOutcome> outcomes_;
  std::vector<int> granted_;
  std::vector<int> denied_;
};

}  // namespace sluice
