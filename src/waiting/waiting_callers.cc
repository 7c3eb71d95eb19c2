#include "waiting/waiting_callers.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {
namespace {

using Number = std::atomic<std::uint64_t>;

/// Of the keys that share a place. Numbers of events, which only rise.
struct Events {
  Number last_reset{0};  // Of a reset that began, or ended.
  Number last_wake{0};   // Of a call of wake(), times two; plus one if it told of a block.
};
using Places = std::array<Events, WaitingCallers::kPlaces>;
constinit std::array<Places, 2> all_events;

// A key has a place in each array. (One key of several limits has several.) With one alone, a
// limiter that resets 100 keys a second would raise most places within ten minutes.
std::array<Events*, 2> events_of(const WaitingCallers& limit, std::string_view key) {
  const std::uint64_t mixed =
      (std::hash<std::string_view>()(key) ^ reinterpret_cast<std::uintptr_t>(&limit)) *
      0x9E3779B97F4A7C15U;
  return {&all_events[0][(mixed >> 32) % WaitingCallers::kPlaces],
          &all_events[1][(mixed >> 48) % WaitingCallers::kPlaces]};
}

void raise(std::array<Events*, 2> places, Number Events::*which, std::uint64_t to) {
  for (Events* const place : places) {
    Number& number = place->*which;
    std::uint64_t before = number.load();
    while (before < to && !number.compare_exchange_weak(before, to)) {
    }
  }
}

// The key's own, or a later one if other keys have raised both of its places.
std::uint64_t last(std::array<Events*, 2> places, Number Events::*which) {
  return std::min((places[0]->*which).load(), (places[1]->*which).load());
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
  const std::uint64_t event = last(events_of(callers_, key), &Events::last_wake);
  const bool was_blocked = event / 2 > since && event % 2 == 1;
  if (was_blocked || std::max(event / 2, callers_.last_wake_all_) > since) {
    wake_(was_blocked ? Waking::kBlocked : Waking::kAskAgain, {});
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
  const std::uint64_t begun = begin_event();
  raise(events_of(*this, key), &Events::last_reset, begun);
  return begun;
}

void WaitingCallers::wake(std::string_view key, Waking why, std::chrono::nanoseconds lasts,
                          std::uint64_t begun) {
  const std::lock_guard lock(mutex_);
  const bool is_block = why == Waking::kBlocked;
  raise(events_of(*this, key), &Events::last_wake, 2 * begun + (is_block ? 1 : 0));
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
  return last(events_of(*this, key), &Events::last_reset) > since;
}

}  // namespace sluice
