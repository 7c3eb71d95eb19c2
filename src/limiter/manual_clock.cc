#include "sluice/manual_clock.h"

#include <stdexcept>
#include <utility>

#include "core/instant.h"
#include "stores/stores.h"
#include "waiting/timer_thread.h"
#include "waiting/wait_queues.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kStart{11'574 * kDayNs};
constexpr nanoseconds kMostPassed{std::int64_t{36'525} * kDayNs};

// The timer's clock counts from the Unix epoch, as the store does.
Instant now_of(const TimerThread& timer) {
  return nanoseconds(timer.now().time_since_epoch()).count();
}

/// A memory store with the time of a ManualClock.
class ManualStore final : public Store {
 public:
  ManualStore(std::shared_ptr<Store> inner, std::shared_ptr<TimerThread> timer)
      : inner_(std::move(inner)), timer_(std::move(timer)) {}

  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override {
    auto space = inner_->replace_space(held, limit);
    // The callers that wait for keys of the space wait by the timer.
    space->attachment<WaitQueues>(timer_);
    return space;
  }
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override {
    inner_->decide(requests, at(now), decisions);
  }
  using Store::decide_all;
  void decide_all(std::span<const Request> requests, Instant now, Decision& decision) override {
    inner_->decide_all(requests, at(now), decision);
  }
  Instant now() const override { return now_of(*timer_); }
  void add_health(StoreHealth& health) const override { inner_->add_health(health); }

 private:
  Instant at(Instant asked) const { return asked == kStoreTime ? now() : asked; }

  const std::shared_ptr<Store> inner_;
  const std::shared_ptr<TimerThread> timer_;
};

}  // namespace

ManualClock::ManualClock() : timer_(std::make_shared<TimerThread>(TimerQueue::TimePoint(kStart))) {}

std::chrono::system_clock::time_point ManualClock::now() const {
  using std::chrono::system_clock;
  return system_clock::time_point(
      std::chrono::duration_cast<system_clock::duration>(nanoseconds(now_of(*timer_))));
}

void ManualClock::advance(nanoseconds time) {
  const nanoseconds passed = nanoseconds(now_of(*timer_)) - kStart;
  if (time.count() < 0 || time > kMostPassed - passed) {
    throw std::invalid_argument(
        "a manual clock goes on by 0 ns or more, and by 100 years altogether");
  }
  timer_->advance(time);
}

void ManualClock::await_waiting(std::size_t threads) {
  timer_->await_waiting(threads);
}

std::shared_ptr<Store> open_store(std::string_view text, ManualClock& clock) {
  StoreUrl url(text);
  if (is_remote(url)) url.fail("only a memory store goes by a manual clock");
  const StoreOptions options{.caller_clock = [timer = clock.timer_] { return now_of(*timer); }};
  return std::make_shared<ManualStore>(open_bare_store(url, options), clock.timer_);
}

}  // namespace sluice
