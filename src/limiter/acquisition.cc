#include "limiter/acquisition.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <span>
#include <utility>

#include "limiter/limiter_core.h"
#include "waiting/wait_queues.h"
#include "waiting/waiting_callers.h"

namespace sluice {

using std::chrono::nanoseconds;
using TimePoint = TimerQueue::TimePoint;

namespace {

/// Waits until an instant, or until it is stopped, or something happens to a claim. Owned by its
/// timer. begin() and end() are called on the timer thread.
class Delay : public std::enable_shared_from_this<Delay> {
 public:
  /// Called once.
  using Done = std::function<void(Waking)>;

  Delay(std::shared_ptr<TimerQueue> timer, Done done)
      : timer_(std::move(timer)), done_(std::move(done)) {}

  /// `wakings` is that of the outcome that granted the claims. `ask` is called when the caller may
  /// ask the store whether they are there already.
  void begin(TimePoint ready, std::span<const AcquireClaim> claims, std::uint64_t wakings,
             const std::stop_token& stop, const WaitingCallers::Ask& ask) {
    ready_ = timer_->at(std::min(ready, TimerQueue::kEndOfTime - nanoseconds(1)),
                        [self = shared_from_this()] { self->end(Waking::kReady); });
    for (const AcquireClaim& claim : claims) {
      if (claim.cost == 0) continue;  // What happens to that key is none of its business.
      callers_.emplace_back(
          claim.queues->callers(), claim.key, *claim.binding, wakings,
          [this](Waking why, nanoseconds) { end_soon(why); }, ask, timer_);
    }
    if (stop.stop_possible()) stop_.emplace(stop, [this] { end_soon(Waking::kStopped); });
  }

  /// Called on any thread.
  void end_soon(Waking why) {
    timer_->post([weak = weak_from_this(), why] {
      if (const auto self = weak.lock()) self->end(why);
    });
  }

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  void end(Waking why) {
    if (done_ == nullptr) return;
    const auto self = shared_from_this();
    timer_->cancel(ready_);
    stop_.reset();
    callers_.clear();
    std::exchange(done_, nullptr)(why);
  }

  const std::shared_ptr<TimerQueue> timer_;
  Done done_;
  TimerQueue::Timer ready_;
  std::list<WaitingCallers::Caller> callers_;
  std::optional<StopCallback> stop_;
};

// Whether the caller may go ahead at once, or not at all.
bool is_over(const AcquireOutcome& outcome) {
  return !outcome.is_granted() || outcome.decision.delay == nanoseconds(0);
}

/// A call that acquires. Owned by what it waits for: its place in a queue, its Delay, or the return
/// of what it had reserved. So it ends on the timer thread.
class Acquisition : public std::enable_shared_from_this<Acquisition> {
 public:
  Acquisition(AcquireRequest request, std::stop_token stop, DecisionCallback callback)
      : request_(std::move(request)), stop_(std::move(stop)), callback_(std::move(callback)) {}

  void begin() {
    WaitQueues::acquire(
        request_, false, stop_,
        [self = shared_from_this()](const AcquireOutcome& outcome) { self->take(outcome); });
  }

  /// The store was asked, and the caller need not wait in a queue any more.
  void take(const AcquireOutcome& outcome) {
    if (is_over(outcome)) return end(outcome.decision, outcome.error);
    granted_ = outcome;
    const auto error = error_in([this] { timer_ = request_.claim().queues->timer(); });
    if (error) {
      const auto returned = [self = shared_from_this(), error](const Decision&) {
        self->end({}, error);
      };
      return WaitQueues::return_granted(AcquireRequest(request_), granted_, returned);
    }
    ready_ = timer_->after(outcome.decision.delay);
    timer_->post([self = shared_from_this()] { self->wait(); });
  }

 private:
  // The caller may destroy the store in its callback. So this is called by a task of the timer, or
  // within the call of the caller, when no other share of the store is held. (If the caller was
  // stopped, or its instant came, while it asked, the request in flight holds one until its
  // answer.)
  void end(const Decision& decision, std::exception_ptr error) {
    request_.claims.clear();
    callback_(decision, std::move(error));
  }

  void wait() {
    const bool too_many_wait = std::ranges::any_of(request_.claims, [](const AcquireClaim& claim) {
      return claim.cost > 0 && claim.queues->callers().size() >= WaitQueues::kMostWaiting;
    });
    if (too_many_wait) return give_up(Ended::kAnswered);
    const auto delay = std::make_shared<Delay>(
        timer_, [self = shared_from_this()](Waking why) { self->wake(why); });
    delay_ = delay;
    // With several claims it does not ask: the units of those that were not given back would be
    // taken twice.
    const bool may_ask = request_.claims.size() == 1 &&
                         granted_.decision.source == Source::kStore &&
                         request_.claim().binding->store()->answers_later();
    delay->begin(ready_, {request_.claims.data(), request_.claims.size()}, granted_.wakings, stop_,
                 may_ask ? [this] { return ask_early(); } : WaitingCallers::Ask());
  }

  // Asks the store whether the units are there already, since another process has given some back:
  // then it would admit the caller anew without a wait. Otherwise it denies that, and changes
  // nothing. Returns false if the units come soon: then it does not ask.
  bool ask_early() {
    if (ready_ - timer_->now() < std::chrono::seconds(1) - kPauseForUnits) return false;
    if (std::exchange(is_asking_, true)) return true;
    const auto asked = std::make_shared<AcquireRequest>(request_);
    asked->until = timer_->now();
    asked->most_denial_age = kMostDenialAge;
    const auto answered = [self = shared_from_this(), asked,
                           delay = delay_](const AcquireOutcome& outcome) {
      self->is_asking_ = false;
      if (outcome.is_granted()) self->take_early(*asked, delay.lock(), outcome);
    };
    ask_later(*asked, timer_, answered);
    return true;
  }

  // What was reserved before is not returned. A reset may have forgotten it, and others may have
  // taken it since; it is not known.
  void take_early(const AcquireRequest& asked, const std::shared_ptr<Delay>& delay,
                  const AcquireOutcome& outcome) {
    if (delay == nullptr || outcome.decision.source != Source::kStore) {
      return WaitQueues::return_granted(asked, outcome, nullptr);
    }
    granted_ = outcome;
    delay->end_soon(Waking::kReady);
    const AcquireClaim& claim = asked.claim();
    timer_->post([queues = claim.queues, key = claim.key] { queues->callers().ask(key); });
  }

  void wake(Waking why) {
    if (why == Waking::kReady) return end(granted_.decision, nullptr);
    if (why == Waking::kStopped) return give_up(Ended::kStopped);
    if (why == Waking::kBlocked) request_.until = timer_->now();
    const auto returned = [self = shared_from_this()](const Decision&) {
      self->timer_->post([self] { self->begin(); });
    };
    WaitQueues::return_granted(request_, granted_, returned);
  }

  void give_up(Ended ended) {
    const auto returned = [self = shared_from_this(), ended](const Decision& answer) {
      self->timer_->post([self, ended, answer] { self->deny(ended, answer); });
    };
    WaitQueues::return_granted(request_, granted_, returned);
  }

  // Denies the caller; `answer` is that to the return of what was reserved. retry_after is a lower
  // bound: callers that have reserved units since then are before it now.
  void deny(Ended ended, const Decision& answer) {
    const bool is_answered = answer.source != Source::kUnavailable;
    const bool is_alone = request_.claims.size() == 1;
    Decision denied = is_alone && is_answered ? answer : granted_.decision;
    denied.allowed = false;
    denied.ended = ended;
    denied.delay = nanoseconds(0);
    denied.retry_after = std::max(nanoseconds(1), nanoseconds(ready_ - timer_->now()));
    end(denied, nullptr);
  }

  AcquireRequest request_;
  const std::stop_token stop_;
  const DecisionCallback callback_;
  std::shared_ptr<TimerQueue> timer_;  // Null until the caller has to wait.
  AcquireOutcome granted_;
  TimePoint ready_;
  std::weak_ptr<Delay> delay_;  // Expired once the caller no longer waits.
  bool is_asking_ = false;      // Whether the units are there already.
};

}  // namespace

void acquire_later(AcquireRequest request, const std::stop_token& stop, DecisionCallback callback) {
  std::make_shared<Acquisition>(std::move(request), stop, std::move(callback))->begin();
}

Decision acquire(AcquireRequest request, std::optional<AcquireOutcome> asked,
                 const std::stop_token& stop) {
  const AcquireOutcome outcome =
      WaitQueues::acquire_blocking(request, false, std::move(asked), stop);
  if (is_over(outcome)) return outcome.decision;
  std::shared_ptr<TimerQueue> timer;
  if (const auto error = error_in([&] { timer = request.claim().queues->timer(); })) {
    WaitQueues::return_granted(request, outcome, nullptr);
    std::rethrow_exception(error);
  }
  using Answer = std::pair<Decision, std::exception_ptr>;
  const auto [decision, error] = block_until_called<Answer>(timer, [&](const auto& called) {
    const auto callback = [called](const Decision& made, std::exception_ptr thrown) {
      called({made, std::move(thrown)});
    };
    std::make_shared<Acquisition>(std::move(request), stop, callback)->take(outcome);
  });
  if (error) std::rethrow_exception(error);
  return decision;
}

bool sleep_until(const std::shared_ptr<TimerQueue>& timer, TimePoint ready,
                 const std::stop_token& stop) {
  return block_until_called<bool>(timer, [&](const auto& called) {
    const auto delay =
        std::make_shared<Delay>(timer, [called](Waking why) { called(why == Waking::kReady); });
    timer->post([delay, ready, stop] { delay->begin(ready, {}, 0, stop, nullptr); });
  });
}

}  // namespace sluice
