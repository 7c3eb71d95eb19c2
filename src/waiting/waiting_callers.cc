#include "waiting/waiting_callers.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {
namespace {

/// Of the keys that share a place. Numbers of events, which only rise.
struct Events {
  std::atomic<std::uint64_t> last_reset{0};  // Of a reset that began, or ended.
  std::atomic<std::uint64_t> last_wake{0};   // Of a call of wake().
};
constinit std::array<Events, WaitingCallers::kPlaces> all_events;

// One key of several limits has several places.
Events& events_of(const WaitingCallers& limit, std::string_view key) {
  const std::size_t of_limit = reinterpret_cast<std::uintptr_t>(&limit) / sizeof limit;
  return all_events[(std::hash<std::string_view>()(key) ^ of_limit) % all_events.size()];
}

void raise(std::atomic<std::uint64_t>& number, std::uint64_t to) {
  std::uint64_t before = number.load();
  while (before < to && !number.compare_exchange_weak(before, to)) {
  }
}

}  // namespace

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
  const std::uint64_t last =
      std::max(events_of(callers_, key).last_wake.load(), callers_.last_wake_all_);
  if (last > since) wake_(Waking::kAskAgain, {});
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
  const std::uint64_t begun = begin_event();
  raise(events_of(*this, key).last_reset, begun);
  return begun;
}

void WaitingCallers::wake(std::string_view key, Waking why, std::chrono::nanoseconds lasts,
                          std::uint64_t begun) {
  const std::lock_guard lock(mutex_);
  raise(events_of(*this, key).last_wake, begun);
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  for (const Caller* caller : found->second.callers) {
    if (caller->since_ < begun) caller->wake_(why, lasts);
  }
}

void WaitingCallers::wake_all(const LimitBinding& binding) {
  const std::lock_guard lock(mutex_);
  last_wake_all_ = begin_event();
  for (const auto& [name, key] : keys_) {
    for (const Caller* caller : key.callers) {
      if (&caller->binding_ == &binding) caller->wake_(Waking::kAskAgain, {});
    }
  }
}

bool WaitingCallers::was_reset(std::string_view key, std::uint64_t since) const {
  return wakings() != since && events_of(*this, key).last_reset.load() > since;
}

}  // namespace sluice
