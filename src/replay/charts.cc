#include "replay/charts.h"

#include <algorithm>
#include <cassert>

namespace sluice::replay {

Charts::Charts(std::size_t limits, std::size_t max_key_steps)
    : limits_(limits), max_key_steps_(max_key_steps), differences_(limits * limits) {
  assert(limits >= 1 && limits <= kMaxCharted);
}

void Charts::add(const Tally& tally, Tally::KeyId key, Instant time_ns,
                 std::span<const Decision* const> decisions) {
  assert(decisions.size() == limits_);
  if (const std::int64_t factor = steps_.include(time_ns); factor > 1) widen(factor);
  const std::int64_t step = steps_.step(time_ns);
  Timeline& timeline = keys_[key];
  const std::size_t before = timeline.steps().size();
  StepCounts& own = timeline.at(step);
  StepCounts& all = all_.at(step);
  key_steps_ += timeline.steps().size() - before;
  ++own.requests;
  ++all.requests;
  for (std::size_t limit = 0; limit < limits_; ++limit) {
    const Decision& decision = *decisions[limit];
    own.level[limit] = std::min(own.level[limit], decision.remaining);
    if (decision.allowed) continue;
    ++own.denied[limit];
    ++all.denied[limit];
    for (std::size_t other = 0; other < limits_; ++other) {
      if (decisions[other]->allowed) ++differences_[other * limits_ + limit];
    }
  }
  if (key_steps_ > max_key_steps_) forget_some(tally);
}

const Timeline* Charts::of(Tally::KeyId key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &found->second;
}

void Charts::widen(std::int64_t factor) {
  all_.widen(factor);
  key_steps_ = 0;
  for (auto& [key, timeline] : keys_) {
    timeline.widen(factor);
    key_steps_ += timeline.steps().size();
  }
}

/// Keeps the timelines that fit into half of the room, so that this is seldom necessary.
void Charts::forget_some(const Tally& tally) {
  decltype(keys_) kept;
  key_steps_ = 0;
  for (const auto& [rank, key] : by_denials(tally)) {
    if (kept.contains(key)) continue;
    Timeline& timeline = keys_[key];
    const std::size_t size = timeline.steps().size();
    if (key_steps_ + size > max_key_steps_ / 2) break;
    key_steps_ += size;
    kept.emplace(key, std::move(timeline));
  }
  keys_ = std::move(kept);
}

/// The keys with a timeline and a denial, with their ranks: first the most denied of each limit,
/// then the second of each, and so on. A key is there for each limit that denies it.
std::vector<std::pair<std::size_t, Tally::KeyId>> Charts::by_denials(const Tally& tally) const {
  std::vector<std::pair<std::size_t, Tally::KeyId>> ranked;
  std::vector<Tally::KeyId> denied;
  for (std::size_t limit = 0; limit < limits_; ++limit) {
    denied.clear();
    for (const auto& [key, timeline] : keys_) {
      if (tally.denied(limit, key) > 0) denied.push_back(key);
    }
    std::sort(denied.begin(), denied.end(), [&](Tally::KeyId a, Tally::KeyId b) {
      const std::uint64_t of_a = tally.denied(limit, a);
      const std::uint64_t of_b = tally.denied(limit, b);
      return of_a != of_b ? of_a > of_b : a < b;
    });
    for (std::size_t rank = 0; rank < denied.size(); ++rank) {
      ranked.emplace_back(rank, denied[rank]);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  return ranked;
}

}  // namespace sluice::replay
