#include "waiting/wait_queues.h"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <utility>

#include "algorithms/limit_definition.h"
#include "waiting/ask_pauses.h"

namespace sluice {

using std::chrono::nanoseconds;
using TimePoint = TimerQueue::TimePoint;

namespace {

const Limit& limit_of(const AcquireClaim& claim) {
  return claim.binding->bound().limit;
}

WaitQueues& queues_of(const AcquireClaim& claim) {
  return *claim.binding->queues();
}

// Whether this process leaves the next permit to other processes, and the caller has so much time.
bool backs_off(const AcquireRequest& request) {
  const AcquireClaim& claim = request.claim();
  if (!request.is_for_permit() || !claim.binding->store()->answers_later()) return false;
  const TimePoint until = queues_of(claim).fairness().backs_off_until(claim.key);
  return queues_of(claim).now() < until && until < request.until;
}

// Whether the caller joins a queue before it asks the store: if this process backs off, or others
// wait for one of its claims, unless it wants nothing of that key. (One that can never be admitted
// asks, and is told so.)
bool waits_first(AcquireRequest& request) {
  if (backs_off(request)) return true;
  if (!can_be_admitted(request)) return false;
  for (std::size_t i = 0; i < request.claims.size(); ++i) {
    const AcquireClaim& claim = request.claims[i];
    if (claim.cost == 0 || queues_of(claim).is_empty(claim.key, limit_of(claim))) continue;
    request.waits_for = i;
    return true;
  }
  return false;
}

// Whether the caller that was given this outcome has to wait, in a queue or for what it has
// reserved. If it was denied and does not wait, sets how it has ended: its timeout may have passed
// while it asked.
bool must_wait(const AcquireRequest& request, AcquireOutcome& outcome) {
  if (outcome.error || outcome.decision.allowed) return outcome.is_reserved();
  const TimePoint now = queues_of(request.claim()).now();
  if (can_wait(request, outcome, now)) return true;
  const bool is_late = now >= request.until && can_wait(request, outcome, outcome.asked_at);
  outcome.decision.ended = is_late ? Ended::kTimedOut : Ended::kAnswered;
  return false;
}

}  // namespace

/// A caller that waits, or may have to: first in a queue, then for the units that it has reserved.
/// All functions are called on the timer thread, except reserve() and wait_for_binding() before it
/// has any task. Shared by its queue, its timers, the completion of its batch in the store, and the
/// return of what it had reserved.
class WaitQueues::Waiter : public std::enable_shared_from_this<Waiter> {
 public:
  Waiter(std::shared_ptr<TimerQueue> timer, AcquireRequest request, Done done)
      : timer_(std::move(timer)), request_(std::move(request)), done_(std::move(done)) {}

  AcquireRequest& request() { return request_; }
  const AcquireRequest& request() const { return request_; }
  const AcquireOutcome& outcome() const { return outcome_; }
  /// Whether its caller has its outcome: a grant that arrives later is returned to the store.
  bool is_done() const { return done_ == nullptr; }

  /// From now on it learns of events of its claims that began after `since`.
  void learn_of_events(std::uint64_t since, const WaitingCallers::Ask& ask = nullptr) {
    if (!callers_.empty() || is_done()) return;
    for (std::size_t i = 0; i < request_.claims.size(); ++i) {
      const AcquireClaim& claim = request_.claims[i];
      if (claim.cost == 0) continue;  // It wants nothing of that key.
      const auto wake = [this, i](Waking why, const Decision& denial) {
        timer_->post([weak = weak_from_this(), i, why, denial] {
          if (const auto waiter = weak.lock()) waiter->on_event(i, why, denial);
        });
      };
      callers_.emplace_back(queues_of(claim).callers(), claim.key, since, false, wake, ask, timer_);
    }
  }

  /// From now on `stop` ends the wait.
  void stop_on(const std::stop_token& stop) {
    if (is_done() || !stop.stop_possible()) return;
    if (stop.stop_requested()) return stop_waiting();
    stop_.emplace(stop, [timer = timer_, weak = weak_from_this()] {
      timer->post([weak] {
        if (const auto waiter = weak.lock()) waiter->stop_waiting();
      });
    });
  }

  /// Asks the store. `then` is called when the outcome is known.
  void ask(const std::function<void()>& then) {
    ask_later(request_, timer_, [self = shared_from_this(), then](const AcquireOutcome& outcome) {
      self->outcome_ = outcome;
      if (self->is_done() && outcome.is_granted()) {
        return_granted(self->request_, outcome, nullptr);
      }
      then();
    });
  }

  /// After the store has answered it, and it need not wait in a queue.
  void take(const AcquireOutcome& outcome) {
    outcome.is_reserved() ? reserve(outcome) : tell(outcome);
  }

  /// Waits for units that it was granted, and that come later. Meanwhile a reset of a key or
  /// another limit lets it begin again, and a block denies it. Also called before it has any task.
  void reserve(const AcquireOutcome& granted) {
    callers_.clear();
    outcome_ = granted;
    ready_ = timer_->after(granted.decision.delay);
    is_reserved_ = true;
    timer_->post([self = shared_from_this()] { self->wait_until_ready(); });
  }

  /// After the store has denied it: it waits for the claim that has denied for longest.
  void wait_for_binding(const Decision& denial) {
    if (request_.claims.size() > 1) request_.waits_for = denial.binding;
    denied.emplace(request_, denial, timer_->now());
  }

  /// Ends it. The caller, which may destroy the store, is told in a task of its own: then the task
  /// that has called this holds no share of the store, nor does this object, unless a request or a
  /// return of its is in flight.
  void tell(const AcquireOutcome& outcome) {
    stop_.reset();
    callers_.clear();
    timer_->post([done = std::exchange(done_, nullptr), outcome] { done(outcome); });
  }

  /// Ends it with a denial: the last one of the store. If the store was not asked, only the limit
  /// is known.
  void tell_denied(Ended ended) {
    const LimitDefinition& limit = limit_of(request_.claim()).definition();
    AcquireOutcome outcome{
        .decision = {.limit = numbers_of(limit.parts[0]).quota, .retry_after = kSoon}};
    if (denied) {
      outcome.decision = denied->decision;
      auto& retry_after = outcome.decision.retry_after;
      const nanoseconds left = retry_after - (timer_->now() - denied->at);
      if (retry_after != kNever) retry_after = std::max(nanoseconds(1), left);
    }
    if (request_.claims.size() > 1) {
      outcome.decision.binding = static_cast<std::uint8_t>(request_.waits_for);
    }
    outcome.decision.ended = ended;
    tell(outcome);
  }

  // Used by its queue.
  std::shared_ptr<Queue> queue;
  std::list<std::shared_ptr<Waiter>>::iterator place;
  std::optional<TimerQueue::Timer> timeout;
  std::optional<LastDenial> denied;

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  void stop_waiting();
  void on_event(std::size_t claim, Waking why, const Decision& denial);

  // Of what it has reserved:

  void wait_until_ready() {
    if (!is_reserved_) return;
    const bool too_many_wait = std::ranges::any_of(request_.claims, [](const AcquireClaim& claim) {
      return claim.cost > 0 && queues_of(claim).callers().size() >= queues_of(claim).most_waiting_;
    });
    if (too_many_wait) return give_up(Ended::kAnswered);
    ready_timer_ = timer_->at(std::min(ready_, TimerQueue::kLastInstant),
                              [self = shared_from_this()] { self->go_ahead(); });
    // If the caller asked the store again, it would take of a window, or of its other claims,
    // twice.
    const bool may_ask =
        request_.claims.size() == 1 &&
        std::ranges::all_of(outcome_.bound().limit.definition().parts, is_bucket) &&
        outcome_.decision.source == Source::kStore &&
        request_.claim().binding->store()->answers_later();
    const auto ask = may_ask ? [this] { return ask_early(); } : WaitingCallers::Ask();
    learn_of_events(outcome_.wakings, ask);
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
                           ready = ready_timer_](const AcquireOutcome& outcome) {
      self->is_asking_ = false;
      if (outcome.is_granted()) self->take_early(*asked, ready, outcome);
    };
    ask_later(*asked, timer_, answered);
    return true;
  }

  // What was reserved before is not returned. A reset may have forgotten it, and others may have
  // taken it since; it is not known.
  void take_early(const AcquireRequest& asked, const TimerQueue::Timer& ready,
                  const AcquireOutcome& outcome) {
    const bool still_waits = is_reserved_ && ready == ready_timer_;
    if (!still_waits || outcome.decision.source != Source::kStore) {
      return return_granted(asked, outcome, nullptr);
    }
    outcome_ = outcome;
    go_ahead();
    const AcquireClaim& claim = asked.claim();
    timer_->post(
        [queues = claim.binding->queues(), key = claim.key] { queues->callers().ask(key); });
  }

  void go_ahead() {
    wait_no_more();
    tell(outcome_);
  }

  void wait_no_more() {
    is_reserved_ = false;
    timer_->cancel(std::exchange(ready_timer_, {}));
    callers_.clear();
  }

  void give_up(Ended ended) {
    wait_no_more();
    return_granted(request_, outcome_, [self = shared_from_this(), ended](const Decision& answer) {
      self->timer_->post([self, ended, answer] { self->deny_reserved(ended, answer); });
    });
  }

  // `answer` is that to the return of what was reserved. retry_after is a lower bound: callers that
  // have reserved units since then are before it now.
  void deny_reserved(Ended ended, const Decision& answer) {
    if (is_done()) return;
    const bool is_answered = answer.source != Source::kUnavailable;
    AcquireOutcome denial{
        .decision = request_.claims.size() == 1 && is_answered ? answer : outcome_.decision};
    denial.decision.allowed = false;
    denial.decision.ended = ended;
    denial.decision.delay = nanoseconds(0);
    denial.decision.retry_after = std::max(nanoseconds(1), nanoseconds(ready_ - timer_->now()));
    tell(denial);
  }

  void begin_again() {
    wait_no_more();
    denied.reset();
    return_granted(request_, outcome_, [self = shared_from_this()](const Decision&) {
      self->timer_->post([self] { ask_first(self); });
    });
  }

  const std::shared_ptr<TimerQueue> timer_;
  AcquireRequest request_;
  std::list<WaitingCallers::Caller> callers_;  // One for each claim of which it learns.
  Done done_;
  std::optional<StopCallback> stop_;
  AcquireOutcome outcome_;
  TimePoint ready_;  // When what it has reserved is there.
  TimerQueue::Timer ready_timer_;
  bool is_reserved_ = false;  // It waits for that.
  bool is_asking_ = false;    // Whether it is there already.
};

/// The callers of this process that wait for one key under limits of equal numbers. All functions,
/// except is_of(), are called on the timer thread. Shared by its entry in WaitQueues, its waiters,
/// its timers and its request in flight.
class WaitQueues::Queue : public std::enable_shared_from_this<Queue> {
 public:
  /// `queues` outlives its waiters.
  Queue(WaitQueues& queues, std::shared_ptr<TimerQueue> timer, const Limit& limit)
      : queues_(queues),
        timer_(std::move(timer)),
        parts_(limit.definition().parts),
        next_ask_(timer_->now()),
        pauses_(next_ask_, new_permit_id()) {}

  /// Whether it is the queue of those that wait under this limit.
  bool is_of(const Limit& limit) const { return limit.definition().parts == parts_; }

  /// How many callers have joined, or are about to. Guarded by WaitQueues::mutex_.
  std::size_t places = 0;

  /// Adds a waiter, unless it is done already. `since` is the value of WaitingCallers::wakings()
  /// when it took a place.
  void join(const std::shared_ptr<Waiter>& waiter, std::uint64_t since) {
    if (waiter->is_done()) return queues_.on_left(waiter->request().claim().key, *this);
    const TimePoint until = waiter->request().until;
    const bool is_first = waiters_.empty();
    if (is_first) {
      pauses_.granted(timer_->now());
      learn_of_events(waiter->request().claim().key, since);
    }
    waiter->queue = shared_from_this();
    waiter->place = waiters_.insert(waiters_.end(), waiter);
    // The queue keeps the denial of its first caller. That of a later one may be for another cost
    // or claim.
    if (waiter->denied && (is_first || !denied_)) denied_ = waiter->denied;
    if (is_first && !asking_) {
      // Since its denial a permit or units may have been returned while the queue was empty.
      next_ask_ = timer_->now();
    } else if (!waiter->request().is_for_permit() && !asking_ && denied_ && next_chance() > until) {
      return deny(waiter, Ended::kAnswered);
    }
    if (until < TimerQueue::kEndOfTime) {
      // The limit may admit several callers at the instant at which their timeouts end.
      waiter->timeout = timer_->at_end_of(until, [weak = std::weak_ptr(waiter)] {
        const auto late = weak.lock();
        if (late && !late->is_done()) late->queue->expire(*late);
      });
    }
    serve();
  }

  /// Lets a waiter know the last denial of the first.
  void tell_denial(Waiter& waiter) const {
    if (denied_) waiter.denied = denied_;
  }

  /// Ends a waiter of this queue at once, denied.
  void leave(Waiter& waiter, Ended ended) {
    const auto self = shared_from_this();
    deny(waiter.shared_from_this(), ended);
    serve();
  }

  /// The key of one of the waiter's several claims was blocked: it is denied.
  void blocked(const std::shared_ptr<Waiter>& waiter, std::size_t claim, const Decision& block) {
    const auto self = shared_from_this();
    deny_blocked(waiter, claim, block);
    serve();
  }

  /// A permit or units were returned, here or elsewhere.
  void released() {
    pauses_.restart();
    if (asking_) {
      released_meanwhile_ = true;
    } else if (!waiters_.empty()) {
      next_ask_ = timer_->now();
      serve();
    }
  }

 private:
  // Before the first waiter asks: what happens to the key from now on, it learns, or the store
  // says.
  void learn_of_events(std::string_view key, std::uint64_t since) {
    const auto wake = [timer = timer_, weak = weak_from_this()](Waking why,
                                                                const Decision& denial) {
      if (why == Waking::kReset) return;  // It is told of what that has returned.
      timer->post([weak, why, denial] {
        if (const auto queue = weak.lock()) queue->on_event(why, denial);
      });
    };
    caller_.emplace(queues_.callers(), key, since, true, wake);
  }

  void on_event(Waking why, const Decision& denial) {
    if (why == Waking::kBlocked) return deny_all(denial);
    if (why == Waking::kReplaced) {
      const auto stays = [this](const auto& waiter) { return waits_here(*waiter); };
      if (std::ranges::all_of(waiters_, stays)) return;
      is_replaced_ = true;
    }
    released();
  }

  void deny_all(const Decision& block) {
    while (!waiters_.empty()) {
      const auto waiter = waiters_.front();
      deny_blocked(waiter, waiter->request().waits_for, block);
    }
    serve();
  }

  // The timeout of a waiter is over. One that asks leaves with the answer, which comes within the
  // store's deadline.
  void expire(Waiter& waiter) {
    waiter.timeout.reset();
    if (asking_.get() != &waiter) leave(waiter, Ended::kTimedOut);
  }

  // When the first asks: after this process's backoff, but before its timeout is over.
  TimePoint next_ask_of(const AcquireRequest& first) const {
    if (!first.is_for_permit()) return next_ask_;
    const TimePoint until = queues_.fairness().backs_off_until(first.claim().key);
    return std::max(next_ask_, std::min(first.until, until));
  }

  // Lets the first waiter ask the store now, or sets a timer for its next attempt.
  void serve() {
    if (ask_timer_) timer_->cancel(*std::exchange(ask_timer_, std::nullopt));
    if (asking_) return;
    const auto self = shared_from_this();
    if (std::exchange(is_replaced_, false)) move_replaced();
    if (waiters_.empty()) return;
    const TimePoint next = next_ask_of(waiters_.front()->request());
    if (next <= timer_->now()) {
      released_meanwhile_ = false;
      asking_ = waiters_.front();
      const auto asking = asking_;
      asking->ask([self] {
        self->settle();
        self->serve();
      });
    } else if (next < TimerQueue::kEndOfTime) {
      ask_timer_ = timer_->at(next, [weak = weak_from_this()] {
        const auto queue = weak.lock();
        if (!queue) return;
        queue->ask_timer_.reset();
        queue->serve();
      });
    }
  }

  // Denied for as long as the block or, if that is longer, as the last denial here.
  void deny_blocked(const std::shared_ptr<Waiter>& waiter, std::size_t claim, Decision block) {
    const TimePoint now = timer_->now();
    const nanoseconds left = denied_ ? next_chance() - now : nanoseconds(0);
    remove(waiter);
    if (claim != waiter->request().waits_for && left >= block.retry_after) {
      waiter->denied = denied_;  // The claim for which it waits denies for longer.
    } else {
      block.retry_after = std::max(block.retry_after, left);
      waiter->request().waits_for = claim;
      waiter->denied.emplace(waiter->request(), block, now);
    }
    waiter->tell_denied(Ended::kAnswered);
  }

  // The store has answered the waiter that asked.
  void settle() {
    const auto waiter = std::exchange(asking_, nullptr);
    const TimePoint now = timer_->now();
    next_ask_ = now;
    if (waiter->is_done()) return;
    const AcquireRequest& request = waiter->request();
    const AcquireOutcome& outcome = waiter->outcome();
    if (outcome.error || outcome.decision.allowed) {
      pauses_.granted(now);
      remove(waiter);
      return waiter->take(outcome);
    }
    if (!waits_here(*waiter)) {  // By its former limit: it asks under the new one.
      is_replaced_ = true;       // The queue may learn of that later, or not at all.
      return;
    }
    const bool is_late = now >= request.until;
    const bool may_wait = !is_late && can_wait(request, outcome, now);
    const Ended ended = is_late ? Ended::kTimedOut : Ended::kAnswered;
    const bool binds_here =
        request.claims.size() == 1 || outcome.decision.binding == request.waits_for;
    if (!binds_here && may_wait) {  // It waits in the queue of the claim that denies for longest.
      remove(waiter);
      waiter->wait_for_binding(outcome.decision);
      return WaitQueues::join(waiter, {});
    }
    // A denial of another claim, or of a cost that can never be admitted, is not one for the
    // others.
    if (!binds_here || outcome.decision.retry_after == kNever) {
      AcquireOutcome told = outcome;
      if (!binds_here) told.decision.ended = ended;
      remove(waiter);
      return waiter->tell(told);
    }
    denied_.emplace(request, outcome.decision, now);
    if (!may_wait) return deny(waiter, ended);
    const TimePoint next = next_try(*waiter);
    if (!released_meanwhile_) next_ask_ = std::max(next_ask_, next);
    if (request.is_for_permit()) watch(*waiter);
  }

  // When the denied waiter asks again.
  TimePoint next_try(const Waiter& waiter) {
    const AcquireRequest& request = waiter.request();
    // A process that shares its permits and units with no other learns of each return.
    if (!request.claim().binding->store()->answers_later()) return next_chance();
    if (request.is_for_permit()) {
      return std::min(next_chance(), denied_->at + pauses_.next(timer_->now(), is_reported_));
    }
    return std::min(next_chance(), waiter.outcome().asked_at + kPauseForUnits);
  }

  // When the waiter that was denied last may be granted, if nothing is returned before.
  TimePoint next_chance() const {
    return TimerQueue::later(denied_->at, denied_->decision.retry_after);
  }

  void watch(const Waiter& waiter) {
    const AcquireClaim& claim = waiter.request().claim();
    Store& store = *claim.binding->store();
    if (watch_ || !store.answers_later()) return;
    watch_ = store.watch(waiter.outcome().bound().space, claim.key,
                         [timer = timer_, weak = weak_from_this()] {
                           timer->post([weak] {
                             if (const auto queue = weak.lock()) queue->on_report();
                           });
                         });
  }

  // The store reports a release, or that it will report releases from now on.
  void on_report() {
    if (watch_) {
      is_reported_ = true;
      queues_.fairness().store_notifies();
    }
    released();
  }

  void deny(const std::shared_ptr<Waiter>& waiter, Ended ended) {
    const auto self = shared_from_this();
    remove(waiter);
    tell_denial(*waiter);
    waiter->tell_denied(ended);
  }

  // Whether it is the queue of the waiter's present limit.
  bool waits_here(const Waiter& waiter) const { return is_of(limit_of(waiter.request().claim())); }

  // Those whose limit was replaced go to the end of the queue of the new one, of which they know no
  // denial.
  void move_replaced() {
    for (auto place = waiters_.begin(); place != waiters_.end();) {
      const auto waiter = *place++;
      if (waits_here(*waiter)) continue;
      remove(waiter);
      waiter->denied.reset();
      WaitQueues::join(waiter, {});
    }
  }

  void remove(const std::shared_ptr<Waiter>& waiter) {
    const bool was_first = waiter->place == waiters_.begin();
    waiters_.erase(waiter->place);
    if (was_first && !waiters_.empty() && !waiter->request().is_for_permit()) {
      next_ask_ = timer_->now();  // The next one may want less.
    }
    const auto self = std::move(waiter->queue);
    if (waiter->timeout) timer_->cancel(*std::exchange(waiter->timeout, std::nullopt));
    if (waiters_.empty()) {
      caller_.reset();
      watch_.reset();
      is_reported_ = false;
    }
    queues_.on_left(waiter->request().claim().key, *this);
  }

  WaitQueues& queues_;
  const std::shared_ptr<TimerQueue> timer_;
  const std::vector<AnyPart> parts_;  // Of their limits.
  std::list<std::shared_ptr<Waiter>> waiters_;
  std::shared_ptr<Waiter> asking_;   // The first, or one that has left in the meantime.
  bool released_meanwhile_ = false;  // While it was asking.
  // A limit was replaced, and its callers are still here. They go to the queue of the new one, in
  // their order; if the first asks, when it is answered.
  bool is_replaced_ = false;
  std::optional<WaitingCallers::Caller> caller_;  // While it has waiters.
  TimePoint next_ask_;                            // When the first asks next, but for a backoff.
  std::optional<TimerQueue::Timer> ask_timer_;
  AskPauses pauses_;
  std::optional<LastDenial> denied_;  // The last denial of the first.
  // Null if the store does not report releases, or was not asked yet.
  Watch watch_;
  bool is_reported_ = false;  // The store has begun to report.
};

void WaitQueues::Waiter::stop_waiting() {
  if (is_done()) return;
  if (queue) return queue->leave(*this, Ended::kStopped);
  is_reserved_ ? give_up(Ended::kStopped) : tell_denied(Ended::kStopped);
}

void WaitQueues::Waiter::on_event(std::size_t claim, Waking why, const Decision& denial) {
  if (is_done() || callers_.empty()) return;  // It has left what it waited for.
  const BoundLimit& present = request_.claims[claim].binding->bound();
  const bool has_asked_by_it = !outcome_.claims.empty() && outcome_.claims[claim].bound == &present;
  if (why == Waking::kReplaced && has_asked_by_it) return;  // The limit of others was replaced.
  const auto self = shared_from_this();
  if (is_reserved_) {
    if (why == Waking::kBlocked) request_.until = timer_->now();
    return begin_again();
  }
  if (!queue) {  // It is on its way to the queue of another claim.
    return timer_->post([self, claim, why, denial] { self->on_event(claim, why, denial); });
  }
  why == Waking::kBlocked ? queue->blocked(self, claim, denial) : queue->released();
}

// REQUIRES: the lock is held.
WaitQueues::Queues::iterator WaitQueues::find_queue(std::string_view key, const Limit& limit) {
  const auto [first, last] = queues_.equal_range(key);
  const auto is_of = [&](const auto& entry) { return entry.second->is_of(limit); };
  const auto found = std::find_if(first, last, is_of);
  return found == last ? queues_.end() : found;
}

bool WaitQueues::has_queue(std::string_view key, const Limit& limit) {
  const std::lock_guard lock(mutex_);
  return find_queue(key, limit) != queues_.end();
}

// Throws, without what the caller has reserved, std::system_error if the timer thread cannot start,
// and std::logic_error if the caller blocks in a callback.
std::shared_ptr<TimerQueue> WaitQueues::timer_for(const AcquireRequest& request,
                                                  const std::optional<AcquireOutcome>& asked,
                                                  bool blocks) {
  try {
    if (blocks) TimerThread::require_other_thread();
    return queues_of(request.claim()).timer();
  } catch (const std::exception&) {
    if (asked && asked->is_granted()) return_granted(request, *asked, nullptr);
    throw;
  }
}

void WaitQueues::wait(AcquireRequest request, const std::optional<AcquireOutcome>& asked,
                      const std::stop_token& stop, const Done& done) {
  const auto timer = timer_for(request, asked, false);
  const auto waiter = std::make_shared<Waiter>(timer, std::move(request), done);
  if (asked && asked->is_granted()) {
    waiter->reserve(*asked);
    return timer->post([waiter, stop] { waiter->stop_on(stop); });
  }
  if (asked) waiter->wait_for_binding(asked->decision);
  join(waiter, stop);
}

// The waiter joins the queue of its claim. Posted under the lock, so that callers stand in the
// queue in the order of these calls.
void WaitQueues::join(const std::shared_ptr<Waiter>& waiter, const std::stop_token& stop) {
  const AcquireClaim& claim = waiter->request().claim();
  WaitQueues& queues = queues_of(claim);
  waiter->request().most_denial_age = kMostDenialAge;
  const std::lock_guard lock(queues.mutex_);
  const auto timer = queues.timer();
  const Limit& limit = limit_of(claim);
  auto found = queues.find_queue(claim.key, limit);
  if (queues.waiting_.load(std::memory_order_relaxed) >= queues.most_waiting_) {
    const auto queue = found == queues.queues_.end() ? nullptr : found->second;
    timer->post([waiter, queue] {
      if (waiter->is_done()) return;
      // If it has asked, its own denial is that of its cost.
      if (queue && !waiter->denied) queue->tell_denial(*waiter);
      waiter->tell_denied(Ended::kAnswered);
    });
    return;
  }
  if (found == queues.queues_.end()) {
    found = queues.queues_.emplace(claim.key, std::make_shared<Queue>(queues, timer, limit));
  }
  ++found->second->places;
  // Counted before it asks again, so that a thread that returns units after its denial finds it,
  // and wakes it.
  queues.waiting_.fetch_add(1, std::memory_order_release);
  timer->post([waiter, stop, since = WaitingCallers::wakings(), queue = found->second] {
    waiter->stop_on(stop);
    // Of the events of one claim alone, its queue tells it.
    if (waiter->request().claims.size() > 1) waiter->learn_of_events(since);
    queue->join(waiter, since);
  });
}

// A waiter has left this queue of the key.
void WaitQueues::on_left(const std::string& key, const Queue& queue) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = queues_.equal_range(key);
  const auto is_it = [&](const auto& entry) { return entry.second.get() == &queue; };
  const auto entry = std::find_if(first, last, is_it);
  if (--entry->second->places == 0) queues_.erase(entry);
  waiting_.fetch_sub(1, std::memory_order_release);
}

// On the timer thread.
void WaitQueues::ask_first(const std::shared_ptr<Waiter>& waiter) {
  if (waiter->is_done()) return;
  if (waits_first(waiter->request())) return join(waiter, {});
  waiter->ask([waiter] {
    if (waiter->is_done()) return;
    AcquireOutcome outcome = waiter->outcome();
    const bool waits = must_wait(waiter->request(), outcome);
    if (!waits || outcome.is_granted()) return waiter->take(outcome);
    waiter->wait_for_binding(outcome.decision);
    join(waiter, {});
  });
}

Request WaitQueues::settling(const Taken& taken, const BoundLimit& limit, std::int64_t actual) {
  const AcquireClaim& claim = taken.claim;
  Request request = limit.request(claim.key);
  request.giver = taken.granted.giver;
  if (taken.permit != 0) {
    request.operation = Operation::kRelease;
    request.permit = taken.permit;
    return request;
  }
  const std::int64_t units = taken.granted.giver == Source::kFull ? 0 : claim.cost;
  request.operation = actual > units ? Operation::kCharge : Operation::kRefund;
  request.cost = std::abs(actual - units);
  if (request.operation == Operation::kRefund) {
    WaitQueues& queues = queues_of(claim);
    taken.granted.counted_for.restrict_refund(request, queues.now() - taken.asked_at);
    const bool is_forgotten = &limit != taken.granted.bound;
    if (is_forgotten || queues.callers().was_reset(claim.key, taken.wakings)) request.cost = 0;
  }
  return request;
}

void WaitQueues::return_granted(const AcquireRequest& request, const AcquireOutcome& granted,
                                const Returned& then) {
  const auto left = std::make_shared<std::size_t>(request.claims.size());
  for (std::size_t i = 0; i < request.claims.size(); ++i) {
    const Taken back = taken(request.claims[i], granted, i);
    const auto returned = [queues = back.claim.binding->queues(), key = back.claim.key, left,
                           then](const Decision& answer) {
      queues->released(key);
      if (--*left == 0 && then) then(answer);
    };
    return_later(back.claim.binding, settling(back, *back.granted.bound, 0), returned,
                 queues_of(back.claim).manual_timer_);
  }
}

void WaitQueues::acquire(AcquireRequest request, const std::stop_token& stop, const Done& done) {
  std::optional<AcquireOutcome> asked;
  try {
    if (!stop.stop_requested() && !waits_first(request)) {
      const AcquireClaim& claim = request.claim();
      if (claim.binding->store()->answers_later()) {
        const auto timer = queues_of(claim).timer();
        const auto waiter = std::make_shared<Waiter>(timer, std::move(request), done);
        return timer->post([waiter, stop] {
          waiter->stop_on(stop);
          ask_first(waiter);
        });
      }
      asked = ask_now(request, queues_of(claim).now());
    }
    if (!asked || must_wait(request, *asked)) return wait(std::move(request), asked, stop, done);
  } catch (const std::exception&) {
    asked = AcquireOutcome{.error = std::current_exception()};
  }
  request.claims.clear();  // The caller may destroy the store when it is told.
  done(*asked);
}

AcquireOutcome WaitQueues::acquire_blocking(AcquireRequest request, const std::stop_token& stop) {
  std::optional<AcquireOutcome> asked;
  if (!stop.stop_requested() && !waits_first(request)) {
    asked = ask_now(request, queues_of(request.claim()).now());
  }
  if (!asked || must_wait(request, *asked)) {
    asked = block_until_called<AcquireOutcome>(
        timer_for(request, asked, true),
        [&](const Done& done) { wait(std::move(request), asked, stop, done); });
  }
  if (asked->error) std::rethrow_exception(asked->error);
  return *std::move(asked);
}

}  // namespace sluice
