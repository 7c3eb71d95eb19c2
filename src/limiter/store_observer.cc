#include "limiter/store_observer.h"

#include <utility>

#include "core/limit_syntax.h"
#include "waiting/timer_thread.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kLookAgain{100};
constexpr std::chrono::minutes kQuiet{1};

std::string in_milliseconds(std::chrono::nanoseconds time) {
  return format_duration(std::chrono::ceil<std::chrono::milliseconds>(time).count() *
                         kMillisecondNs);
}

// On the timer thread, again and again while the store exists.
void look(const std::shared_ptr<TimerQueue>& timer, const std::weak_ptr<Store>& weak,
          const std::shared_ptr<StoreEvents>& events, const StoreObserver& observer) {
  {
    const std::shared_ptr<Store> store = weak.lock();
    if (store == nullptr) return;
    for (const auto& event : events->since_last(health(*store), timer->now())) observer(event);
  }
  timer->at(timer->after(kLookAgain), [=] { look(timer, weak, events, observer); });
}

}  // namespace

std::vector<StoreEvent> StoreEvents::since_last(const StoreHealth& health, TimePoint now) {
  using State = StoreHealth::State;
  std::vector<StoreEvent> events;
  const bool was_lost = health.times_lost != last_.times_lost;
  if (was_lost && last_.state == State::kDown) {
    events.push_back(event(StoreEvent::Kind::kUp, health, "is back"));
  }
  const bool has_other_reason = health.state == State::kDown && health.reason != told_reason_;
  if (was_lost || (has_other_reason && now >= reason_until_)) {
    events.push_back(event(StoreEvent::Kind::kDown, health, "is lost: " + health.reason));
    told_reason_ = health.reason;
    reason_until_ = now + kQuiet;
  }
  if (health.state == State::kUp && (was_lost || last_.state != State::kUp)) {
    const bool was_down = health.times_lost != 0;
    events.push_back(event(StoreEvent::Kind::kUp, health, was_down ? "is back" : "is connected"));
  }
  if (health.times_late != last_.times_late) {
    events.push_back(
        event(StoreEvent::Kind::kLate, health,
              "answers later than the deadline of " + format_duration(health.deadline.count()) +
                  ": after up to " + in_milliseconds(health.late_round_trip) + "; deadline=" +
                  format_duration(health.sufficient_deadline.count()) + " would be enough"));
  }
  if (health.clock_behind != last_.clock_behind && begins(behind_until_, now)) {
    events.push_back(event(StoreEvent::Kind::kClock, health,
                           "has keys ahead of the clock: " + health.late_clock + " is behind by " +
                               in_milliseconds(health.clock_lag)));
  }
  const bool is_full = health.evicted != last_.evicted || health.without_room != last_.without_room;
  if (is_full && begins(full_until_, now)) {
    events.push_back(event(StoreEvent::Kind::kFull, health,
                           "is full: so far " + std::to_string(health.evicted) +
                               " keys were evicted and " + std::to_string(health.without_room) +
                               " requests for new keys found no room"));
  }
  last_ = health;
  return events;
}

StoreEvent StoreEvents::event(StoreEvent::Kind kind, const StoreHealth& health,
                              const std::string& what) const {
  return {.kind = kind, .message = "the store " + store_ + " " + what, .health = health};
}

bool StoreEvents::begins(TimePoint& quiet_until, TimePoint now) {
  return now >= std::exchange(quiet_until, now + kQuiet);
}

void observe(const std::shared_ptr<Store>& store, std::string name, StoreObserver observer) {
  const auto timer = TimerThread::shared();
  timer->post([timer, weak = std::weak_ptr(store),
               events = std::make_shared<StoreEvents>(std::move(name)),
               observer = std::move(observer)] { look(timer, weak, events, observer); });
}

StoreHealth health(const Store& store) {
  StoreHealth health;
  store.add_health(health);
  return health;
}

std::vector<DecisionCount> decision_counts(const Store& store) {
  std::vector<DecisionCount> counts;
  store.add_counts(counts);
  return counts;
}

}  // namespace sluice
