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

/// What the connections of one serving thread share, whatever protocols they speak. Not
/// thread-safe.
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

  /// How many decisions have been told to clients since the start, in the order of the named limits
  /// and then of the others; what has not occurred is left out. Only requests that take are
  /// counted: neither peeks nor refunds and resets. Thread-safe.
  std::vector<OutcomeCount> outcomes() const;

 private:
  const std::shared_ptr<Store> store_;
  std::vector<std::string> names_;  // Of the limits, by number; the first is kOtherLimits.
  std::vector<std::unique_ptr<ThreadContext>> threads_;
};

}  // namespace sluice
