#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "advise/limit_families.h"
#include "core/algorithm.h"
#include "core/arithmetic.h"
#include "core/ring.h"

namespace sluice::advise {

/// Owns the state of an algorithm, and commits changes to it.
template <class A>
class OwnedState {
 public:
  const typename A::State& view() const { return state_; }
  void commit(const typename A::Change& next) { state_ = next; }
  std::size_t heap_bytes() const { return 0; }

 private:
  typename A::State state_;
};

/// A ring of few entries.
template <class A>
requires kIsRing<A>
class OwnedState<A> {
 public:
  Ring view() const {
    const auto size = static_cast<std::uint32_t>(entries_.size());
    return {.slots = entries_.data(), .capacity = size, .head = 0, .size = size, .base = base_};
  }

  void commit(const RingChange& change) {
    if (change.first > 0) {
      base_ = entries_[change.first - 1].total;
      entries_.erase(entries_.begin(), entries_.begin() + change.first);
    }
    entries_.resize(change.count);
    if (change.count == 0) {
      base_ = 0;
    } else {
      entries_.back() = change.newest;
    }
  }

  std::size_t heap_bytes() const { return entries_.capacity() * sizeof(RingEntry); }

 private:
  std::vector<RingEntry> entries_;
  std::uint64_t base_ = 0;
};

/// What one key asks of the limits of one family: the smallest limit that would deny it nothing,
/// and how many of its requests each smaller limit of the series would deny. Both are exact. They
/// come from the algorithm itself, in one pass: until a limit denies for the first time, its state
/// is that of a limit which never denies, so only then it gets a state of its own.
template <class A>
class Demand {
 public:
  /// Adds a request with a cost of at least 1.
  void add(const LimitFamily<A>& family, const Call& call) {
    const auto step = A::take(family.unlimited, state_.view(), call);
    const Decision& decision = step.decision;
    const std::int64_t needed = decision.allowed ? decision.limit - decision.remaining : kMaxCount;
    const std::vector<std::int64_t>& series = limit_series();
    while (denying_.size() < family.limits.size() && series[denying_.size()] < needed) {
      denying_.push_back({.state = state_});
    }
    for (std::size_t i = 0; i < denying_.size(); ++i) {
      const auto own = A::take(family.limits[i], denying_[i].state.view(), call);
      if (own.decision.allowed) {
        denying_[i].state.commit(own.next);
      } else {
        ++denying_[i].denied;
      }
    }
    if (decision.allowed) state_.commit(step.next);
    peak_ = std::max(peak_, needed);
  }

  /// The smallest limit that denies nothing; kMaxCount if the algorithm has no such limit.
  std::int64_t peak() const { return peak_; }

  /// The requests that the limit with this index in the series denies.
  std::uint64_t denied(std::size_t limit) const {
    return limit < denying_.size() ? denying_[limit].denied : 0;
  }

  std::size_t heap_bytes() const {
    std::size_t bytes = denying_.capacity() * sizeof(Denying) + state_.heap_bytes();
    for (const Denying& limit : denying_) bytes += limit.state.heap_bytes();
    return bytes;
  }

 private:
  struct Denying {
    OwnedState<A> state;
    std::uint64_t denied = 0;
  };

  /// The state if nothing is denied.
  OwnedState<A> state_;
  std::int64_t peak_ = 0;
  /// The limits that have denied, which are the first of the series.
  std::vector<Denying> denying_;
};

}  // namespace sluice::advise
