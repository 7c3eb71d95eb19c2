#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/algorithm.h"
#include "core/limit_syntax.h"
#include "core/ring.h"

namespace sluice {

/// The slots of a ring, changed as core/ring.h describes. The head moves with every change, so that
/// views wrap around.
class RingSlots {
 public:
  Ring view() const {
    return {slots_.data(), static_cast<std::uint32_t>(slots_.size()), head_, size_, base_};
  }

  void commit(const RingChange& change) {
    const Ring old = view();
    std::vector<RingEntry> kept;
    for (std::uint32_t i = 0; i + 1 < change.count; ++i) kept.push_back(old.at(change.first + i));
    if (change.count > 0) kept.push_back(change.newest);
    if (change.first > 0) base_ = old.at(change.first - 1).total;
    if (change.count == 0) base_ = 0;

    slots_.assign(kept.size() + 1, RingEntry{});
    head_ = static_cast<std::uint32_t>((head_ + 1) % slots_.size());
    size_ = change.count;
    for (std::size_t i = 0; i < kept.size(); ++i) slots_[(head_ + i) % slots_.size()] = kept[i];
  }

 private:
  std::vector<RingEntry> slots_;
  std::uint32_t head_ = 0;
  std::uint32_t size_ = 0;
  std::uint64_t base_ = 0;
};

/// One key of a limit with one part. Commits a change as every store does: if it is admitted and
/// has a cost.
template <class A>
class AlgorithmKey {
 public:
  /// REQUIRES: `expression` is valid.
  explicit AlgorithmKey(std::string_view expression) {
    auto parts = parse_limit_syntax(expression);
    params_ = A::define(parts.at(0));
  }

  Decision take(const Call& call) {
    const Step<typename A::Change> step = A::take(params_, state(), call);
    if (!step.decision.allowed || call.cost == 0) return step.decision;
    if constexpr (kIsRing<A>) {
      kept_.commit(step.next);
    } else {
      kept_ = step.next;
    }
    return step.decision;
  }

  const typename A::Params& params() const { return params_; }

  typename A::State state() const {
    if constexpr (kIsRing<A>) {
      return kept_.view();
    } else {
      return kept_;
    }
  }

 private:
  typename A::Params params_;
  std::conditional_t<kIsRing<A>, RingSlots, typename A::State> kept_;
};

}  // namespace sluice
