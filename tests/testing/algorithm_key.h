#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/algorithm.h"
#include "core/arithmetic.h"
#include "core/limit_syntax.h"
#include "core/permits.h"
#include "core/ring.h"

namespace sluice {

/// Prints a decision when a test fails. GoogleTest finds it by this name.
inline void PrintTo(const Decision& d, std::ostream* out) {
  *out << (d.allowed ? "allowed" : "denied") << " limit=" << d.limit << " remaining=" << d.remaining
       << " retry_ns=" << d.retry_after.count() << " reset_ns=" << d.reset_after.count()
       << " delay_ns=" << d.delay.count();
}

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

/// The entries of a list of permits.
class PermitSlots {
 public:
  PermitList view() const { return slots_; }

  void commit(const PermitChange& change) {
    const auto size = static_cast<std::uint32_t>(slots_.size());
    slots_.resize(std::max(size, change.size_after(size)));
    slots_.resize(commit_permits(slots_, size, change));
  }

 private:
  std::vector<PermitEntry> slots_;
};

/// One key of a limit with one part. Commits a change as every store does: if it is admitted and
/// has a cost.
template <class A>
class AlgorithmKey {
 public:
  /// REQUIRES: `expression` is valid and outlives the key.
  explicit AlgorithmKey(std::string_view expression) : params_(define(expression)) {}

  Decision take(const Call& call) { return ask(Operation::kTake, call); }
  Decision refund(const Call& call) { return ask(Operation::kRefund, call); }
  Decision charge(const Call& call) { return ask(Operation::kCharge, call); }
  Decision ask(Operation operation, const Call& call) {
    return commit(apply<A>(operation, params_, state(), call), call);
  }

  /// Takes one unit at a time, at one instant, until denied. Returns how many were admitted.
  std::int64_t drain(Instant now) {
    std::int64_t admitted = 0;
    while (take({.now = now}).allowed) ++admitted;
    return admitted;
  }

  /// Changes the limit; the key's state stays.
  void redefine(std::string_view expression) { params_ = define(expression); }

  const typename A::Params& params() const { return params_; }

  typename A::State state() const {
    if constexpr (kHasSlots) {
      return kept_.view();
    } else {
      return kept_;
    }
  }

 private:
  static constexpr bool kHasSlots = kIsRing<A> || kIsPermits<A>;
  using Slots = std::conditional_t<kIsRing<A>, RingSlots, PermitSlots>;

  static typename A::Params define(std::string_view expression) {
    auto parts = parse_limit_syntax(expression);
    return A::define(parts.at(0));
  }

  Decision commit(const Step<typename A::Change>& step, const Call& call) {
    if (!step.decision.allowed || call.cost == 0) return step.decision;
    if constexpr (kHasSlots) {
      kept_.commit(step.next);
    } else {
      kept_ = step.next;
    }
    return step.decision;
  }

  typename A::Params params_;
  std::conditional_t<kHasSlots, Slots, typename A::State> kept_;
};

}  // namespace sluice
