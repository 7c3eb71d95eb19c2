#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.h"
#include "service/decision_batch.h"
#include "service/limit_registry.h"
#include "service/outcome_counters.h"
#include "sluice/limit.h"

namespace sluice {

/// What the connections of one serving thread share, in all protocols. Used by that thread only,
/// except that any thread may read `counters`.
struct ThreadContext {
  /// Throws InvalidLimit or StoreError where a limit cannot be added.
  ThreadContext(const std::shared_ptr<Store>& store, const std::vector<Limit>& named);

  LimitRegistry limits;
  OutcomeCounters counters;
  DecisionBatch batch;
};

/// What all serving threads share: the store, and a context for each thread.
class ServerContext {
 public:
  /// What outcomes() calls all limits that are not named. No limit can have this name.
  static constexpr std::string_view kOtherLimits = "(other)";

  /// `named` are the limits that requests may name. Throws InvalidLimit or StoreError where one
  /// cannot be added. REQUIRES: threads >= 1.
  ServerContext(std::shared_ptr<Store> store, const std::vector<Limit>& named, std::size_t threads);

  Store& store() const { return *store_; }
  std::size_t threads() const { return threads_.size(); }
  /// For the thread numbered `index` alone. REQUIRES: index < threads().
  ThreadContext& thread(std::size_t index) { return *threads_[index]; }

  /// How many decisions were written as replies since the start: first those of the named limits,
  /// in their order, then those of all other limits. Outcomes that have not occurred are left out.
  /// Only requests that take units are counted, not peeks, refunds and resets. Thread-safe.
  std::vector<OutcomeCount> outcomes() const;

 private:
  const std::shared_ptr<Store> store_;
  std::vector<std::string> names_;  // Of the limits, by number; the first is kOtherLimits.
  std::vector<std::unique_ptr<ThreadContext>> threads_;
};

}  // namespace sluice
