#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "core/together.h"

namespace sluice {

/// A store for tests: buckets, one by one, in a map; every other limit is always
/// fresh. It remembers how it was asked.
class FakeStore : public Store {
 public:
  struct FakeSpace : Space {
    std::string name;
  };

  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override {
    if (breaks) throw std::runtime_error("the store is broken");
    if (refuses_spaces) throw StoreError("no room for another space");
    auto& space = spaces_[limit.space];
    if (!space) {
      space = std::make_shared<FakeSpace>();
      space->name = limit.space;
    }
    return space;
  }

  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override {
    batches.push_back(requests.size());
    if (fails) throw StoreError("the store is away");
    for (std::size_t i = 0; i < requests.size(); ++i) {
      decisions[i] = decide_one(requests[i], now == kStoreTime ? clock_ns : now);
    }
  }

  /// Decides one after the other: one that is denied does not undo the others.
  Decision decide_all(std::span<const Request> requests, Instant now) override {
    if (refuses_all) throw std::invalid_argument("these keys are not in one slot");
    batches.push_back(requests.size());
    if (fails) throw StoreError("the store is away");
    Together all;
    for (const Request& request : requests) {
      const Decision one = decide_one(request, now == kStoreTime ? clock_ns : now);
      if (!request.parts.empty()) request.parts[0] = one;
      all.add(one);
    }
    return all.decision();
  }
  Instant now() const override { return clock_ns; }

  Instant clock_ns = 1'700'000'000'000'000'000;
  /// open_space() throws what is no StoreError.
  bool breaks = false;
  bool refuses_spaces = false;
  bool fails = false;
  /// Requests cannot be asked together.
  bool refuses_all = false;
  /// The size of each batch so far.
  std::vector<std::size_t> batches;

 private:
  Decision decide_one(const Request& request, Instant now) {
    const auto& space = dynamic_cast<const FakeSpace&>(*request.space);
    auto& state = states_[{space.name, std::string(request.key)}];
    if (request.operation == Operation::kReset) {
      state = {};
      return {};
    }
    const Call call{.now = now, .cost = request.cost, .patience_ns = request.patience_ns};
    const auto step = std::visit(
        [&]<class P>(const P& part) -> Step<BucketState> {
          using A = typename P::Algorithm;
          if constexpr (std::is_same_v<typename A::State, BucketState>) {
            return apply<A>(request.operation, part.params, state, call);
          } else {
            return {admit({.limit = part.params.limit, .remaining = part.params.limit}), state};
          }
        },
        request.limit->parts.front());
    if (step.decision.allowed && request.cost > 0) state = step.next;
    return step.decision;
  }

  std::map<std::string, std::shared_ptr<FakeSpace>> spaces_;
  std::map<std::pair<std::string, std::string>, BucketState> states_;
};

}  // namespace sluice
