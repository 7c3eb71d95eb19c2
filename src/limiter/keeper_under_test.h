#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "limiter/answering_store.h"
#include "limiter/manual_timekeeper.h"
#include "limiter/permit_keeper.h"

namespace sluice {

/// May have no memory for another entry.
class NarrowTimekeeper final : public ManualTimekeeper {
 public:
  Timer at(TimePoint when, Task task) override {
    if (is_full) throw std::bad_alloc();
    return ManualTimekeeper::at(when, std::move(task));
  }

  bool is_full = false;
};

/// Permits with a lease of 60 s, over a store and a clock that do as they are told.
class PermitKeeperTest : public testing::Test {
 protected:
  struct End {
    void operator()(HeldPermit* permit) const { permit->end(); }
  };
  using Held = std::unique_ptr<HeldPermit, End>;

  Held hold(PermitId id, Source source = Source::kStore) {
    Outcome granted{.decision = {.allowed = true, .source = source}, .permit = id};
    granted.asked = clock_->now();
    granted.bound = &keeper_->slot().bound();
    return Held(keeper_->hold("k", granted));
  }

  /// The permits for which this was asked since the last call.
  std::vector<PermitId> asked(Operation operation) {
    std::vector<PermitId> permits;
    for (const auto& asked : store_->asked) {
      if (asked.operation == operation) permits.push_back(asked.permit);
    }
    store_->asked.clear();
    return permits;
  }

  void says(const Decision& decision) {
    store_->says = [decision](const Request&) { return decision; };
  }

  std::shared_ptr<NarrowTimekeeper> clock_ = std::make_shared<NarrowTimekeeper>();
  std::shared_ptr<AnsweringStore> store_ = std::make_shared<AnsweringStore>();
  std::shared_ptr<PermitKeeper> keeper_ =
      std::make_shared<PermitKeeper>(store_, Limit("concurrency 4 lease=60s", "jobs"), clock_);
};

}  // namespace sluice
