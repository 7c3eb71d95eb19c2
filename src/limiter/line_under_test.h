#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "limiter/answering_store.h"
#include "limiter/limit_slot.h"
#include "limiter/manual_timekeeper.h"
#include "limiter/waiting_lines.h"

namespace sluice {

/// Lines over a store and a clock that do as they are told.
class LineUnderTest : public testing::Test {
 protected:
  struct Options {
    std::int64_t cost = 1;
    std::chrono::nanoseconds patience = std::chrono::seconds(100);
    std::optional<Decision> denied = std::nullopt;
    std::stop_token stop = {};
    std::string key = "k";
    /// Not in line, if nobody waits.
    bool directly = false;
  };

  void use(const char* expression, LimitSlot::Kind kind) {
    lends_ = kind == LimitSlot::Kind::kLent;
    slot_ = std::make_shared<LimitSlot>(store_, Limit(expression), kind);
  }
  void use_permits() { use("concurrency 1 lease=60s", LimitSlot::Kind::kLent); }
  void use_window() { use("fixed_window 5/1m", LimitSlot::Kind::kSpent); }

  /// Somebody comes; their permit is their number.
  int come(const Options& options) {
    const int number = ++last_number_;
    Wish wish{.slot = slot_,
              .key = options.key,
              .cost = options.cost,
              .permit = lends_ ? static_cast<PermitId>(number) : 0,
              .until = keeper_->after(options.patience)};
    const auto finish = [this, number](const Outcome& outcome) {
      EXPECT_TRUE(outcomes_.emplace(number, outcome).second) << "told twice";
      (outcome.decision.allowed ? granted_ : denied_).push_back(number);
    };
    if (options.directly) {
      lines_.ask(std::move(wish), options.stop, finish);
    } else {
      lines_.wait(std::move(wish), options.denied, options.stop, finish);
    }
    return number;
  }
  int come() { return come(Options{}); }

  void grant(bool grants) { grants_ = grants; }

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

  /// Who waits on keeps a line, and the line whoever waits: all leave with the test.
  void TearDown() override {
    grants_ = true;
    store_->says = [](const Request&) { return Decision{.allowed = true}; };
    do {
      while (store_->under_way() > 0) store_->answer();
      keeper_->pass(std::chrono::seconds(100));
    } while (store_->under_way() > 0);
  }

  std::shared_ptr<ManualTimekeeper> keeper_ = std::make_shared<ManualTimekeeper>();
  std::shared_ptr<AnsweringStore> store_ = std::make_shared<AnsweringStore>();
  WaitingLines lines_{keeper_};
  std::shared_ptr<LimitSlot> slot_;
  bool lends_ = false;
  bool grants_ = false;
  std::chrono::nanoseconds retry_after_ = std::chrono::seconds(60);
  int last_number_ = 0;
  std::map<int, Outcome> outcomes_;
  std::vector<int> granted_;
  std::vector<int> denied_;
};

}  // namespace sluice
