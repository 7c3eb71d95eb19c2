#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "limiter/guarded_store.h"
#include "limiter/scripted_store.h"
#include "sluice/limit.h"

namespace sluice {

inline constexpr Instant kStart = 1'700'000'000'000'000'000;

/// A guarded store around a scripted one, with one limit.
class GuardUnderTest : public testing::Test {
 protected:
  /// One request, of which most is as usual.
  struct Ask {
    std::string_view key = "k";
    std::int64_t cost = 1;
    std::int64_t patience_ns = kDefaultPatience;
    Operation operation = Operation::kTake;
    std::int64_t duration_ns = 0;
    PermitId permit = 0;
    Source giver = Source::kStore;
  };

  void guard(const GuardOptions& options, const std::string& expression = "token_bucket 10/1h") {
    store_ = std::make_unique<GuardedStore>(inner_, options);
    use(expression);
  }

  /// Asks for this limit from now on.
  void use(const std::string& expression, const std::string& name = "limit") {
    limit_ = std::make_unique<Limit>(expression, name);
    space_ = store_->open_space(limit_->definition());
  }

  Request request(const Ask& ask) const {
    return {.limit = &limit_->definition(),
            .space = space_.get(),
            .key = ask.key,
            .operation = ask.operation,
            .cost = ask.cost,
            .patience_ns = ask.patience_ns,
            .duration_ns = ask.duration_ns,
            .permit = ask.permit,
            .giver = ask.giver};
  }

  std::vector<Request> requests(const std::vector<Ask>& asks) const {
    std::vector<Request> all;
    for (const Ask& ask : asks) all.push_back(request(ask));
    return all;
  }

  std::vector<Decision> decide_batch(const std::vector<Ask>& asks, Instant now = kStoreTime) {
    std::vector<Decision> decisions(asks.size());
    store_->decide(requests(asks), now, decisions);
    return decisions;
  }

  Decision decide(const Ask& ask, Instant now = kStoreTime) { return decide_batch({ask}, now)[0]; }

  Decision decide_all(const std::vector<Ask>& asks, Instant now = kStoreTime) {
    return store_->decide_all(requests(asks), now);
  }

  void lose(const std::string& key) {
    inner_->loses = [key](const Request& asked) { return asked.key == key; };
  }

  std::shared_ptr<ScriptedStore> inner_ = std::make_shared<ScriptedStore>();
  std::unique_ptr<GuardedStore> store_;
  std::unique_ptr<Limit> limit_;
  std::shared_ptr<Space> space_;
};

}  // namespace sluice
