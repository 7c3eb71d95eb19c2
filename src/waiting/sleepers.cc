#include "waiting/sleepers.h"

#include <algorithm>
#include <utility>

namespace sluice {

Sleepers::Sleeper::Sleeper(Sleepers& sleepers, std::string_view key, const LimitBinding& binding,
                           std::uint64_t since, Wake wake)
    : sleepers_(sleepers), binding_(binding), since_(since), wake_(std::move(wake)) {
  const std::lock_guard lock(sleepers_.mutex_);
  place_ = sleepers_.sleepers_.emplace(std::string(key), this);
  if (const auto event = sleepers_.missed(key, binding, since)) wake_(event->why, event->lasts);
}

Sleepers::Sleeper::~Sleeper() {
  const std::lock_guard lock(sleepers_.mutex_);
  sleepers_.sleepers_.erase(place_);
}

std::uint64_t Sleepers::begin_reset(std::string_view key) {
  const std::size_t key_hash = std::hash<std::string_view>()(key);
  const std::lock_guard lock(mutex_);
  if (resets_.size() == kMostResets && !resets_.contains(key_hash)) {
    former_resets_ = std::exchange(resets_, {});
    resets_forgotten_ = std::exchange(last_former_, wakings());
  }
  const std::uint64_t begun = begin_event();
  resets_[key_hash] = begun;
  return begun;
}

void Sleepers::wake(std::string_view key, Waking why, std::chrono::nanoseconds lasts,
                    std::uint64_t begun) {
  const std::lock_guard lock(mutex_);
  remember({begun, why, lasts, std::hash<std::string_view>()(key), nullptr});
  const auto [first, last] = sleepers_.equal_range(key);
  for (auto entry = first; entry != last; ++entry) {
    const Sleeper& sleeper = *entry->second;
    if (sleeper.since_ < begun) sleeper.wake_(why, lasts);
  }
}

void Sleepers::wake_all(const LimitBinding& binding, Waking why) {
  const std::lock_guard lock(mutex_);
  remember({begin_event(), why, {}, 0, &binding});
  for (const auto& [key, sleeper] : sleepers_) {
    if (&sleeper->binding_ == &binding) sleeper->wake_(why, {});
  }
}

bool Sleepers::was_reset(std::string_view key, std::uint64_t since) const {
  if (wakings() == since) return false;
  const std::lock_guard lock(mutex_);
  if (resets_forgotten_ > since) return true;
  const std::size_t key_hash = std::hash<std::string_view>()(key);
  const auto is_in = [&](const Resets& resets) {
    const auto reset = resets.find(key_hash);
    return reset != resets.end() && reset->second > since;
  };
  return is_in(resets_) || is_in(former_resets_);
}

void Sleepers::remember(const Event& event) {
  if (events_.size() == kMostRemembered) {
    forgotten_ = std::max(forgotten_, events_.front().begun);
    events_.erase(events_.begin());
  }
  events_.push_back(event);
}

// The first event since then that concerns the caller. If events were dropped, kReplaced: the
// caller returns its units and asks again.
std::optional<Sleepers::Event> Sleepers::missed(std::string_view key, const LimitBinding& binding,
                                                std::uint64_t since) const {
  if (wakings() == since) return std::nullopt;
  if (forgotten_ > since) return Event{forgotten_, Waking::kReplaced, {}, 0, nullptr};
  const std::size_t key_hash = std::hash<std::string_view>()(key);
  for (const Event& event : events_) {
    if (event.begun <= since) continue;
    if (event.binding ? event.binding == &binding : event.key_hash == key_hash) return event;
  }
  return std::nullopt;
}

}  // namespace sluice
