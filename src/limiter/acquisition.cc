#include "limiter/acquisition.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <list>
#include <utility>

#include "algorithms/limit_definition.h"
#include "limiter/limiter_core.h"
#include "waiting/wait_queues.h"
#include "waiting/waiting_callers.h"

namespace sluice {

using std::chrono::nanoseconds;
using TimePoint = TimerQueue::TimePoint;

namespace {

using StopCallback = std::stop_callback<std::function<void()>>;

// The latest instant for which a timer can be set.
constexpr TimePoint kLastInstant = TimerQueue::kEndOfTime - nanoseconds(1);

// Whether the caller may go ahead at once, or not at all.
bool is_over(const AcquireOutcome& outcome) {
  return !outcome.is_granted() || outcome.decision.delay == nanoseconds(0);
}

/// A call that acquires. Owned by what it waits for: its place in a queue, the timer of what it has
/// reserved, or the return of that. So it ends on the timer thread.
class Acquisition : public std::enable_shared_from_this<Acquisition> {
 public:
  Acquisition(AcquireRequest request, std::stop_token stop, DecisionCallback callback)
      : request_(std::move(request)), stop_(std::move(stop)), callback_(std::move(callback)) {}

  void begin() {
    WaitQueues::acquire(
        request_, stop_,
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
    ++waits_;
    is_waiting_ = true;
    ready_timer_ = timer_->at(std::min(ready_, kLastInstant),
                              [self = shared_from_this()] { self->wake(Waking::kReady); });
    // If the caller asked the store again, it would take of a window, or of its other claims,
    // twice.
    const bool may_ask =
        request_.claims.size() == 1 &&
        std::ranges::all_of(granted_.bound().limit.definition().parts, is_bucket) &&
        granted_.decision.source == Source::kStore &&
        request_.claim().binding->store()->answers_later();
    const auto ask = may_ask ? [this] { return ask_early(); } : WaitingCallers::Ask();
    for (const AcquireClaim& claim : request_.claims) {
      if (claim.cost == 0) continue;  // What happens to that key is none of its business.
      callers_.emplace_back(
          claim.queues->callers(), claim.key, *claim.binding, granted_.wakings,
          [this](Waking why, nanoseconds) { wake_soon(why); }, ask, timer_);
    }
    if (stop_.stop_possible()) on_stop_.emplace(stop_, [this] { wake_soon(Waking::kStopped); });
  }

  // Called on any thread.
  void wake_soon(Waking why) {
    timer_->post([weak = weak_from_this(), why] {
      if (const auto self = weak.lock()) self->wake(why);
    });
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
                           wait = waits_](const AcquireOutcome& outcome) {
      self->is_asking_ = false;
      if (outcome.is_granted()) self->take_early(*asked, wait, outcome);
    };
    ask_later(*asked, timer_, answered);
    return true;
  }

  // What was reserved before is not returned. A reset may have forgotten it, and others may have
  // taken it since; it is not known.
  void take_early(const AcquireRequest& asked, int wait, const AcquireOutcome& outcome) {
    const bool still_waits = is_waiting_ && wait == waits_;
    if (!still_waits || outcome.decision.source != Source::kStore) {
      return WaitQueues::return_granted(asked, outcome, nullptr);
    }
    granted_ = outcome;
    wake_soon(Waking::kReady);
    const AcquireClaim& claim = asked.claim();
    timer_->post([queues = claim.queues, key = claim.key] { queues->callers().ask(key); });
  }

  void wake(Waking why) {
    if (!std::exchange(is_waiting_, false)) return;
    const auto self = shared_from_this();
    timer_->cancel(ready_timer_);
    on_stop_.reset();
    callers_.clear();
    if (why == Waking::kReady) return end(granted_.decision, nullptr);
    if (why == Waking::kStopped) return give_up(Ended::kStopped);
    if (why == Waking::kBlocked) request_.until = timer_->now();
    const auto returned = [self](const Decision&) {
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
  bool is_waiting_ = false;  // For what it has reserved.
  int waits_ = 0;            // How often it has begun to.
  bool is_asking_ = false;   // Whether the units are there already.
  // While it waits:
  TimerQueue::Timer ready_timer_;
  std::list<WaitingCallers::Caller> callers_;
  std::optional<StopCallback> on_stop_;
};

}  // namespace

void acquire_later(AcquireRequest request, const std::stop_token& stop, DecisionCallback callback) {
  std::make_shared<Acquisition>(std::move(request), stop, std::move(callback))->begin();
}

Decision acquire(AcquireRequest request, std::optional<AcquireOutcome> asked,
                 const std::stop_token& stop) {
  const AcquireOutcome outcome = WaitQueues::acquire_blocking(request, std::move(asked), stop);
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
  TimerQueue::Timer at_ready;
  std::optional<StopCallback> on_stop;
  const bool is_ready = block_until_called<bool>(timer, [&](const auto& called) {
    // Called on the timer thread, perhaps twice.
    const auto end = [called, is_over = std::make_shared<bool>(false)](bool at_end) {
      if (!std::exchange(*is_over, true)) called(at_end);
    };
    at_ready = timer->at(std::min(ready, kLastInstant), [end] { end(true); });
    on_stop.emplace(stop, [timer, end] { timer->post([end] { end(false); }); });
  });
  timer->cancel(at_ready);
  return is_ready;
}

}  // namespace sluice
