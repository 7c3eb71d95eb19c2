#include "limiter/store_observer.h"

#include <algorithm>
#include <utility>

#include "core/limit_syntax.h"
#include "waiting/timer_thread.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kLookAgain{100};
constexpr std::chrono::minutes kQuiet{1};
constexpr std::size_t kToldAtOnce = 16;
// Of one loss, or of refusals until a quiet minute.
constexpr std::size_t kMostReasons = 1'000;

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
  using Kind = StoreEvent::Kind;
  std::vector<StoreEvent> events;
  const auto tell = [&](Kind kind, const std::string& what) {
    events.push_back(
        {.kind = kind, .message = "the store " + store_ + " " + what, .health = health});
  };
  const bool was_lost = health.times_lost != last_.times_lost;
  if (was_lost && last_.state == State::kDown && loss_is_told_) {
    tell(Kind::kUp, "is back");
  }
  if ((was_lost || health.state == State::kDown) && may_tell_loss(was_lost, now) &&
      is_new(reasons_of_loss_, health.reason, now)) {
    tell(Kind::kDown, "is lost: " + health.reason);
  }
  if (health.state == State::kUp && (was_lost || last_.state != State::kUp)) {
    const bool was_down = health.times_lost != 0;
    if (!was_down) tell(Kind::kUp, "is connected");
    if (was_down && loss_is_told_) tell(Kind::kUp, "is back");
  }
  if (health.times_late != last_.times_late && begins(Kind::kLate, now)) {
    tell(Kind::kLate, "answers later than the deadline of " +
                          format_duration(health.deadline.count()) + ": after up to " +
                          in_milliseconds(health.late_round_trip) + "; deadline=" +
                          format_duration(health.sufficient_deadline.count()) + " would be enough");
  }
  if (health.refused != last_.refused) {
    if (begins(Kind::kRefused, now)) refusals_ = {};
    if (is_new(refusals_, health.refusal, now)) {
      tell(Kind::kRefused, "refuses requests: " + health.refusal);
    }
  }
  if (health.clock_behind != last_.clock_behind && begins(Kind::kClock, now)) {
    tell(Kind::kClock, "has keys ahead of the clock: " + health.late_clock + " is behind by " +
                           in_milliseconds(health.clock_lag) + " or more");
  }
  const bool is_full = health.evicted != last_.evicted || health.without_room != last_.without_room;
  if (is_full && begins(Kind::kFull, now)) {
    tell(Kind::kFull, "is full: so far " + std::to_string(health.evicted) +
                          " keys were evicted and " + std::to_string(health.without_room) +
                          " requests for new keys found no room");
  }
  last_ = health;
  return events;
}

bool StoreEvents::Pace::lets_pass(TimePoint now) {
  if (passed_ >= kToldAtOnce && now < quiet_until_) return false;
  ++passed_;
  if (passed_ >= kToldAtOnce) quiet_until_ = now + kQuiet;
  return true;
}

bool StoreEvents::is_new(Reasons& reasons, const std::string& reason, TimePoint now) {
  auto& told = reasons.told;
  if (told.size() == kMostReasons || std::ranges::find(told, reason) != told.end()) return false;
  if (!reasons.pace.lets_pass(now)) return false;
  told.push_back(reason);
  return true;
}

bool StoreEvents::may_tell_loss(bool is_new, TimePoint now) {
  if (is_new) {
    if (begins(StoreEvent::Kind::kDown, now)) losses_ = {};
    reasons_of_loss_ = {};
    loss_is_told_ = false;
  }
  loss_is_told_ = loss_is_told_ || losses_.lets_pass(now);
  return loss_is_told_;
}

bool StoreEvents::begins(StoreEvent::Kind kind, TimePoint now) {
  return now >= std::exchange(quiet_until_[kind], now + kQuiet);
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
