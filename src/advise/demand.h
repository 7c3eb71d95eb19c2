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

/// A ring in a vector. The entries before first_ are dropped; they are erased when they are half of
/// all, so that each is moved a bounded number of times.
template <class A>
requires kIsRing<A>
class OwnedState<A> {
 public:
  Ring view() const {
    const auto size = static_cast<std::uint32_t>(entries_.size() - first_);
    return {.slots = entries_.data() + first_,
            .capacity = size,
            .head = 0,
            .size = size,
            .base = base_};
  }

  void commit(const RingChange& change) {
    if (change.first > 0) {
      first_ += change.first;
      base_ = entries_[first_ - 1].total;
    }
    if (first_ * 2 > entries_.size()) {
      entries_.erase(entries_.begin(), entries_.begin() + first_);
      first_ = 0;
    }
    entries_.resize(first_ + change.count);
    if (change.count == 0) {
      base_ = 0;
    } else {
      entries_.back() = change.newest;
    }
  }

  std::size_t heap_bytes() const { return entries_.capacity() * sizeof(RingEntry); }

 private:
  std::vector<RingEntry> entries_;
  std::uint32_t first_ = 0;
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
    const std::int64_t needed = needed_by(family, step.decision, call);
    const std::vector<std::int64_t>& series = limit_series();
    while (denying_.size() < family.limits.size() && series[denying_.size()] < needed) {
      denying_.push_back({.state = state_, .admitted = requests_});
      denied_until_.push_back(0);
    }
    for (std::size_t i = 0; i < denying_.size(); ++i) {
      if (call.now < denied_until_[i]) continue;
      const auto own = A::take(family.limits[i], denying_[i].state.view(), call);
      if (own.decision.allowed) {
        denying_[i].state.commit(own.next);
        ++denying_[i].admitted;
        denied_until_[i] = 0;
      } else if (call.cost == 1) {
        denied_until_[i] = call.now + own.decision.retry_after.count();
      }
    }
    ++requests_;
    if (step.decision.allowed) state_.commit(step.next);
    peak_ = std::max(peak_, needed);
  }

  /// The smallest limit that denies nothing; kMaxCount if the algorithm has no such limit.
  std::int64_t peak() const { return peak_; }

  /// The requests that the limit with this index in the series denies.
  std::uint64_t denied(std::size_t limit) const {
    return limit < denying_.size() ? requests_ - denying_[limit].admitted : 0;
  }

  std::size_t heap_bytes() const {
    std::size_t bytes = denying_.capacity() * sizeof(Denying) +
                        denied_until_.capacity() * sizeof(Instant) + state_.heap_bytes();
    for (const Denying& limit : denying_) bytes += limit.state.heap_bytes();
    return bytes;
  }

 private:
  struct Denying {
    OwnedState<A> state;
    std::uint64_t admitted = 0;
  };

  /// The smallest limit that admits the call after all earlier ones, or a number up to peak_ if
  /// that limit does; kMaxCount if the family has none that does. `unlimited` is the decision of
  /// the largest limit.
  std::int64_t needed_by(const LimitFamily<A>& family, const Decision& unlimited,
                         const Call& call) const {
    if (!unlimited.allowed) return kMaxCount;
    std::int64_t needed = unlimited.limit - unlimited.remaining;
    if constexpr (std::is_same_v<A, SlidingCounter>) {
      // It counts in floating point, in which a number as large as the largest limit has no
      // fraction, so that the difference may be a unit or two wrong.
      const auto admits = [&](std::int64_t limit) {
        const typename A::Params params{.limit = limit, .window = family.unlimited.window};
        return A::take(params, state_.view(), call).decision.allowed;
      };
      if (admits(peak_)) return peak_;
      while (!admits(needed)) ++needed;
      while (admits(needed - 1)) --needed;
    }
    return needed;
  }

  /// The state if nothing is denied.
  OwnedState<A> state_;
  std::int64_t peak_ = 0;
  /// The limits that have denied, which are the first of the series.
  std::vector<Denying> denying_;
  /// By the place in denying_: the instant before which the limit denies every request, since it
  /// has said so when it denied a single unit, and a denied request changes nothing. Until then
  /// add() does not ask the limit: without this, reading a log takes a sixth longer.
  std::vector<Instant> denied_until_;
  std::uint64_t requests_ = 0;
};

}  // namespace sluice::advise
