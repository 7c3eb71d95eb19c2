#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "sluice/limit.h"

namespace sluice {

/// One limit that is open in one store, with calls by key. They throw StoreError where the store
/// does not answer.
class LimitedKeys {
 public:
  LimitedKeys(Store& store, std::string_view expression, std::string_view name = {})
      : LimitedKeys(store, Limit(expression, name).definition()) {}
  LimitedKeys(Store& store, LimitDefinition limit)
      : store_(&store),
        limit_(std::make_shared<const LimitDefinition>(std::move(limit))),
        space_(store.open_space(*limit_)) {}

  /// `key` must outlive the request.
  Request request(std::string_view key, std::int64_t cost = 1,
                  Operation operation = Operation::kTake) const {
    return {.limit = limit_.get(),
            .space = space_.get(),
            .key = key,
            .operation = operation,
            .cost = cost};
  }

  Decision ask(const Request& request, Instant now = kStoreTime) {
    return store_->decide_one(request, now);
  }

  Decision take(std::string_view key, Instant now = kStoreTime, std::int64_t cost = 1) {
    return ask(request(key, cost), now);
  }
  Decision peek(std::string_view key, Instant now) { return take(key, now, 0); }
  Decision reset(std::string_view key, Instant now) {
    return ask(request(key, 1, Operation::kReset), now);
  }

  Decision charge(std::string_view key, Instant now, std::int64_t cost = 1) {
    return ask(request(key, cost, Operation::kCharge), now);
  }
  Decision take_up_to(std::string_view key, Instant now, std::int64_t cost) {
    return ask(request(key, cost, Operation::kTakeUpTo), now);
  }
  Decision block(std::string_view key, Instant now, std::int64_t duration_ns) {
    Request blocking = request(key, 0, Operation::kBlock);
    blocking.duration_ns = duration_ns;
    return ask(blocking, now);
  }
  /// Acquires, renews or releases a permit.
  Decision permit(Operation operation, std::string_view key, Instant now, PermitId permit) {
    Request asking = request(key, 1, operation);
    asking.permit = permit;
    return ask(asking, now);
  }

  const LimitDefinition& limit() const { return *limit_; }
  const std::shared_ptr<Space>& space() const { return space_; }

 private:
  Store* store_;
  std::shared_ptr<const LimitDefinition> limit_;
  std::shared_ptr<Space> space_;
};

}  // namespace sluice
