#include "waiting/waiting_callers.h"

#include <algorithm>
#include <utility>

namespace sluice {

WaitingCallers::Caller::Caller(WaitingCallers& callers, std::string_view key,
                               const LimitBinding& binding, std::uint64_t since, Wake wake, Ask ask,
                               const std::shared_ptr<TimerQueue>& timer)
    : callers_(callers),
      key_(key),
      binding_(binding),
      since_(since),
      wake_(std::move(wake)),
      ask_(std::move(ask)) {
  callers_.size_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(callers_.mutex_);
  const auto place = callers_.keys_.try_emplace(key_).first;
  Key& entry = place->second;
  place_ = entry.callers.insert(entry.callers.end(), this);
  if (const auto event = callers_.missed(key_, binding_, since)) {
    wake_(event->why, event->lasts);
  }
  if (ask_ == nullptr || entry.timer != nullptr) return;
  entry.timer = timer;
  callers_.ask_after_pause(place);
}

WaitingCallers::Caller::~Caller() {
  callers_.size_.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard lock(callers_.mutex_);
  const auto place = callers_.keys_.find(key_);
  Key& key = place->second;
  key.callers.erase(place_);
  if (!key.callers.empty()) return;
  if (key.timer != nullptr) key.timer->cancel(key.next_ask);
  callers_.keys_.erase(place);
}

// Without the lock, since `ask` asks the store.
void WaitingCallers::ask(std::string_view key) {
  const auto found = keys_.find(key);
  if (found == keys_.end() || found->second.timer == nullptr) return;
  found->second.timer->cancel(found->second.next_ask);
  const auto asks = [](const Caller* caller) { return caller->ask_ != nullptr && caller->ask_(); };
  if (std::ranges::any_of(found->second.callers, asks)) return ask_after_pause(found);
  found->second.timer.reset();  // Until one comes that may ask.
}

// While the key has callers, the space exists.
void WaitingCallers::ask_after_pause(Keys::iterator key) {
  TimerQueue& timer = *key->second.timer;
  key->second.next_ask = timer.at(timer.after(kPauseForUnits), [this, key] { ask(key->first); });
}

std::uint64_t WaitingCallers::begin_reset(std::string_view key) {
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

void WaitingCallers::wake(std::string_view key, Waking why, std::chrono::nanoseconds lasts,
                          std::uint64_t begun) {
  const std::lock_guard lock(mutex_);
  remember({begun, why, lasts, std::hash<std::string_view>()(key), nullptr});
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  for (const Caller* caller : found->second.callers) {
    if (caller->since_ < begun) caller->wake_(why, lasts);
  }
}

void WaitingCallers::wake_all(const LimitBinding& binding) {
  const std::lock_guard lock(mutex_);
  remember({begin_event(), Waking::kAskAgain, {}, 0, &binding});
  for (const auto& [name, key] : keys_) {
    for (const Caller* caller : key.callers) {
      if (&caller->binding_ == &binding) caller->wake_(Waking::kAskAgain, {});
    }
  }
}

bool WaitingCallers::was_reset(std::string_view key, std::uint64_t since) const {
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

void WaitingCallers::remember(const Event& event) {
  if (events_.size() == kMostRemembered) {
    forgotten_ = std::max(forgotten_, events_.front().begun);
    events_.erase(events_.begin());
  }
  events_.push_back(event);
}

// The first event since then that concerns the caller. If events were dropped, it asks again.
std::optional<WaitingCallers::Event> WaitingCallers::missed(std::string_view key,
                                                            const LimitBinding& binding,
                                                            std::uint64_t since) const {
  if (wakings() == since) return std::nullopt;
  if (forgotten_ > since) return Event{forgotten_, Waking::kAskAgain, {}, 0, nullptr};
  const std::size_t key_hash = std::hash<std::string_view>()(key);
  for (const Event& event : events_) {
    if (event.begun <= since) continue;
    if (event.binding ? event.binding == &binding : event.key_hash == key_hash) return event;
  }
  return std::nullopt;
}

}  // namespace sluice
