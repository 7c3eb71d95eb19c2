#include "limiter/waiting_line.h"

#include <algorithm>
#include <random>
#include <utility>

#include "limiter/waiting_lines.h"

namespace sluice {

WaitingLine::WaitingLine(WaitingLines& lines, std::shared_ptr<Timekeeper> keeper)
    : lines_(lines),
      keeper_(std::move(keeper)),
      next_ask_(keeper_->now()),
      waits_since_(next_ask_),
      jitter_(std::random_device()()) {}

void WaitingLine::join(const std::shared_ptr<Waiter>& waiter, const std::stop_token& stop) {
  if (waiter->is_done() || stop.stop_requested()) {
    lines_.left(waiter->wish().key);
    if (!waiter->is_done()) waiter->deny(waiter->denied_at);
    return;
  }
  const bool is_first = waiters_.empty();
  if (is_first) waits_since_ = keeper_->now();
  waiter->line = shared_from_this();
  waiter->place = waiters_.insert(waiters_.end(), waiter);
  if (waiter->denied) {
    denied_ = waiter->denied;
    denied_at_ = waiter->denied_at;
  }
  if (is_first && !asking_) {
    // What was denied to it may have been given back since, when nobody was here to be told.
    next_ask_ = soonest(*waiter);
  } else if (!waiter->lends() && !asking_ && denied_ && next_ask_ > waiter->wish().until) {
    finish(waiter, nullptr);
    return;
  }
  if (waiter->wish().until < Timekeeper::kEndOfTime) {
    waiter->patience = keeper_->at(waiter->wish().until, [weak = std::weak_ptr(waiter)] {
      const auto late = weak.lock();
      if (late && !late->is_done()) late->line->expire(*late);
    });
  }
  serve();
}

void WaitingLine::leave(Waiter& waiter) {
  const auto self = shared_from_this();
  finish(waiter.shared_from_this(), nullptr);
  serve();
}

void WaitingLine::expire(Waiter& waiter) {
  waiter.patience.reset();
  const TimePoint now = keeper_->now();
  const bool is_first = waiters_.front().get() == &waiter;
  if (is_first && (asking_ || next_ask_ <= std::max(now, soonest(waiter)))) {
    // What it is about to hear is its last answer, and comes within the store's deadline.
    waiter.is_last_try = true;
    next_ask_ = now;
    serve();
  } else {
    leave(waiter);
  }
}

void WaitingLine::released() {
  pause_ = kLeastPause;
  if (asking_) {
    released_meanwhile_ = true;
  } else if (!waiters_.empty()) {
    next_ask_ = soonest(*waiters_.front());
    serve();
  }
}

// The first may ask: now, or once this process has rested.
WaitingLine::TimePoint WaitingLine::soonest(const Waiter& first) const {
  const TimePoint now = keeper_->now();
  return first.lends() ? std::max(now, lines_.turns().rests_until(first.wish().key)) : now;
}

void WaitingLine::answered() {
  settle();
  serve();
}

// Asks as long as it is time to and answers come at once; then waits for what comes next.
void WaitingLine::serve() {
  const auto self = shared_from_this();
  while (!asking_ && !waiters_.empty() && next_ask_ <= keeper_->now()) {
    asking_ = waiters_.front();
    released_meanwhile_ = false;
    if (!asking_->ask(keeper_, [self] { self->answered(); })) break;
    settle();
  }
  if (timer_) {
    keeper_->cancel(*timer_);
    timer_.reset();
  }
  if (asking_ || waiters_.empty() || next_ask_ == Timekeeper::kEndOfTime) return;
  timer_ = keeper_->at(next_ask_, [weak = weak_from_this()] {
    const auto line = weak.lock();
    if (!line) return;
    line->timer_.reset();
    line->serve();
  });
}

// The answer to the one who asks is there.
void WaitingLine::settle() {
  const auto waiter = std::exchange(asking_, nullptr);
  const Outcome& outcome = waiter->outcome();
  next_ask_ = soonest(*waiter);
  if (waiter->is_done()) {
    waiter->give_back();
    return;
  }
  if (outcome.error || outcome.decision.allowed) {
    pause_ = kLeastPause;
    waits_since_ = keeper_->now();
    finish(waiter, &outcome);
    return;
  }
  // Of this cost alone: what the others are told is when to ask again.
  if (outcome.decision.retry_after == kNever) return finish(waiter, &outcome);
  denied_ = outcome.decision;
  denied_at_ = keeper_->now();
  const auto next = next_try(*waiter);
  if (next && !released_meanwhile_) next_ask_ = std::max(next_ask_, *next);
  if (!next || waiter->is_last_try) {
    finish(waiter, nullptr);
  } else if (waiter->lends()) {
    watch(*waiter);
  }
}

// When the one who was denied asks again; never, where that is in vain.
std::optional<WaitingLine::TimePoint> WaitingLine::next_try(const Waiter& waiter) {
  if (!can_wait(waiter.wish(), waiter.outcome(), denied_at_)) return std::nullopt;
  const TimePoint chance = Timekeeper::later(denied_at_, denied_->retry_after);
  // Who shares permits with no other process is told of each that comes back.
  if (!waiter.lends() || !waiter.wish().slot->store()->answers_later()) return chance;
  return std::min(chance, denied_at_ + next_pause());
}

// The next pause, of which the second half is left to chance, but not below the least.
std::chrono::nanoseconds WaitingLine::next_pause() {
  const bool passed_over = !is_told_ && keeper_->now() - waits_since_ >= kPassedOver;
  const std::chrono::nanoseconds most = passed_over ? kMostPausePassedOver : kMostPause;
  const auto longest = std::min(most, pause_);
  pause_ = std::min(most, 2 * pause_);
  jitter_ = jitter_ * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX.
  const auto part = static_cast<std::int64_t>(jitter_ >> 44U);      // of 2^20
  const auto jittered = longest / 2 + (longest / 2 * part) / (std::int64_t{1} << 20);
  return std::max<std::chrono::nanoseconds>(kLeastPause, jittered);
}

void WaitingLine::watch(const Waiter& waiter) {
  Store& store = *waiter.wish().slot->store();
  if (is_watched_ || !store.answers_later()) return;
  is_watched_ = true;
  watch_ = store.watch(waiter.outcome().bound->space, waiter.wish().key,
                       [keeper = keeper_, weak = weak_from_this()] {
                         keeper->post([weak] {
                           if (const auto line = weak.lock()) line->told();
                         });
                       });
}

// By the store, which does so: of a release, or that it will from now on.
void WaitingLine::told() {
  if (watch_) {
    is_told_ = true;
    lines_.turns().store_tells();
  }
  released();
}

// With its outcome, or denied.
void WaitingLine::finish(const std::shared_ptr<Waiter>& waiter, const Outcome* outcome) {
  const bool was_first = waiter->place == waiters_.begin();
  waiters_.erase(waiter->place);
  // The next one may wish for less, of a window.
  if (was_first && !waiter->lends()) next_ask_ = keeper_->now();
  const auto self = std::move(waiter->line);
  if (waiter->patience) keeper_->cancel(*std::exchange(waiter->patience, std::nullopt));
  if (waiters_.empty()) {
    watch_.reset();
    is_watched_ = false;
    is_told_ = false;
  }
  lines_.left(waiter->wish().key);
  if (outcome != nullptr) {
    waiter->finish(*outcome);
    return;
  }
  if (denied_) {
    waiter->denied = denied_;
    waiter->denied_at = denied_at_;
  }
  waiter->deny(keeper_->now());
}

}  // namespace sluice
