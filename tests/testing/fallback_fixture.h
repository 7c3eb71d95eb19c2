#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fallback/fallback_store.h"
#include "sluice/limit.h"
#include "testing/scripted_store.h"

namespace sluice {

inline constexpr Instant kStart = 1'700'000'000'000'000'000;

/// A FallbackStore around a ScriptedStore, with one limit.
class FallbackFixture : public testing::Test {
 protected:
  /// One request; its members have usual values.
  struct Ask {
    std::string_view key = "k";
    std::int64_t cost = 1;
    std::int64_t patience_ns = kDefaultPatience;
    Operation operation = Operation::kTake;
    std::int64_t duration_ns = 0;
    PermitId permit = 0;
    Source giver = Source::kStore;
    bool is_reclaim = false;
  };

  /// The result of a submitted batch.
  struct Submitted {
    std::vector<Decision> decisions;
    std::string error;
    int completions = 0;
  };

  // What is pending refers to the limit, and the store destroys the one inside.
  ~FallbackFixture() override {
    inner_.reset();
    store_.reset();
  }

  void wrap(const FallbackOptions& options, const std::string& expression = "token_bucket 10/1h") {
    store_ = std::make_unique<FallbackStore>(inner_, options);
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
            .giver = ask.giver,
            .is_reclaim = ask.is_reclaim};
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

  /// The same, as another process would ask: of the inner store.
  Decision decide_elsewhere(const Ask& ask, Instant now = kStoreTime) {
    const auto space = inner_->open_space(limit_->definition());
    Request asked = request(ask);
    asked.space = space.get();
    return inner_->decide_one(asked, now);
  }

  Decision decide_all(const std::vector<Ask>& asks, Instant now = kStoreTime) {
    return store_->decide_all(requests(asks), now);
  }

  std::shared_ptr<Submitted> submit(const std::vector<Ask>& asks,
                                    Batch::Mode mode = Batch::Mode::kEach,
                                    Instant now = kStoreTime) {
    auto result = std::make_shared<Submitted>();
    auto batch = std::make_unique<Batch>(requests(asks), mode, now);
    batch->keep(space_);
    batch->completion = [result](Batch& completed) {
      ++result->completions;
      result->decisions.assign(completed.decisions().begin(), completed.decisions().end());
      result->error = completed.error();
    };
    store_->submit(std::move(batch));
    return result;
  }

  /// Returns after so many nanoseconds, or later.
  void let_pass(std::int64_t ns) const {
    const Instant began = store_->now();
    while (store_->now() < began + ns) {
    }
  }

  void lose(const std::string& key) {
    inner_->loses = [key](const Request& asked) { return asked.key == key; };
  }

  std::shared_ptr<ScriptedStore> inner_ = std::make_shared<ScriptedStore>();
  std::unique_ptr<FallbackStore> store_;
  std::unique_ptr<Limit> limit_;
  std::shared_ptr<Space> space_;
};

}  // namespace sluice
