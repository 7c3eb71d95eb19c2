#include "waiting/waiting_callers.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "core/fork.h"

namespace sluice {
namespace {

/// Of a key. The numbers of events only rise.
struct LastEvents {
  std::uint64_t reset = 0;  // That began, or ended.
  std::uint64_t wake = 0;
  Waking why = Waking::kReset;  // The last wake.
  Decision denial = {};
};

/// Of the keys of all limits.
class AllEvents {
 public:
  /// `limit` tells the keys of one limit from those of others.
  LastEvents of(const void* limit, std::string_view key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(hash(limit, key));
    LastEvents last = found == by_key_.end() ? LastEvents() : found->second;
    last.reset = std::max(last.reset, forgotten_);
    last.wake = std::max(last.wake, forgotten_);
    return last;
  }

  void note(const void* limit, std::string_view key, const LastEvents& event) {
    const std::lock_guard lock(mutex_);
    LastEvents& last = by_key_[hash(limit, key)];
    const std::uint64_t reset = std::max(last.reset, event.reset);
    if (event.wake > last.wake) last = event;
    last.reset = reset;
    if (by_key_.size() <= WaitingCallers::kMostKeys) return;
    by_key_.clear();
    forgotten_ = WaitingCallers::wakings();
  }

 private:
  static std::size_t hash(const void* limit, std::string_view key) {
    return std::hash<std::string_view>()(key) ^ reinterpret_cast<std::uintptr_t>(limit);
  }

  std::mutex mutex_;
  // Guarded by mutex_:
  std::unordered_map<std::size_t, LastEvents> by_key_;
  std::uint64_t forgotten_ = 0;  // Of the events up to this one, any may be.
};

constinit PerProcess<AllEvents> all_events;

}  // namespace

WaitingCallers::Caller::Caller(WaitingCallers& callers, std::string_view key, std::uint64_t since,
                               bool is_queue, Wake wake, Ask ask,
                               const std::shared_ptr<TimerQueue>& timer)
    : callers_(callers),
      key_(key),
      since_(since),
      is_queue_(is_queue),
      wake_(std::move(wake)),
      ask_(std::move(ask)) {
  if (!is_queue) callers_.size_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(callers_.mutex_);
  const auto place = callers_.keys_.try_emplace(key_).first;
  Key& entry = place->second;
  place_ = entry.callers.insert(is_queue ? entry.callers.begin() : entry.callers.end(), this);
  if (wakings() > since) {
    const LastEvents last = all_events.get().of(&callers_, key);
    if (last.wake > since) {
      wake_(last.why, last.denial);
    } else if (callers_.last_replaced_ > since) {
      wake_(Waking::kReplaced, {});
    }
  }
  if (ask_ == nullptr || entry.timer != nullptr) return;
  entry.timer = timer;
  callers_.ask_after_pause(place);
}

WaitingCallers::Caller::~Caller() {
  if (!is_queue_) callers_.size_.fetch_sub(1, std::memory_order_relaxed);
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
  all_events.get().note(this, key, {.reset = begun});
  return begun;
}

void WaitingCallers::wake(std::string_view key, Waking why, const Decision& denial,
                          std::uint64_t begun) {
  const std::lock_guard lock(mutex_);
  all_events.get().note(this, key, {.wake = begun, .why = why, .denial = denial});
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  for (const Caller* caller : found->second.callers) {
    if (caller->since_ < begun) caller->wake_(why, denial);
  }
}

void WaitingCallers::returned(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  for (const Caller* caller : found->second.callers) {
    if (!caller->is_queue_) return;
    caller->wake_(Waking::kReturned, {});
  }
}

void WaitingCallers::limit_replaced() {
  const std::lock_guard lock(mutex_);
  last_replaced_ = begin_event();
  for (const auto& [name, key] : keys_) {
    for (const Caller* caller : key.callers) caller->wake_(Waking::kReplaced, {});
  }
}

bool WaitingCallers::was_reset(std::string_view key, std::uint64_t since) const {
  return wakings() > since && all_events.get().of(this, key).reset > since;
}

}  // namespace sluice
