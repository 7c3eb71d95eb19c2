#include "limiter/waiting_lines.h"

#include <condition_variable>
#include <utility>
#include <vector>

#include "limiter/waiting_line.h"

namespace sluice {

bool WaitingLines::has_line(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  return lines_.contains(key);
}

std::shared_ptr<Timekeeper> WaitingLines::keeper() {
  const std::lock_guard lock(mutex_);
  if (!keeper_) keeper_ = Timekeeper::shared();
  return keeper_;
}

void WaitingLines::wait(Wish wish, std::optional<Decision> denied, const std::stop_token& stop,
                        Waiter::Finish finish) {
  const auto keeper = this->keeper();
  join(std::make_shared<Waiter>(std::move(wish), std::move(denied), keeper->now(),
                                std::move(finish)),
       stop);
}

// Who comes first stands first: the entry in the agenda is made under the lock. It is the last that
// can fail, so that whoever is told so is told nothing else.
void WaitingLines::join(const std::shared_ptr<Waiter>& waiter, const std::stop_token& stop) {
  const std::lock_guard lock(mutex_);
  if (waiting_.load(std::memory_order_relaxed) >= kMostWaiting) {
    keeper_->post([waiter] {
      if (!waiter->is_done()) waiter->deny(waiter->denied_at);
    });
    return;
  }
  const auto place = lines_.try_emplace(waiter->wish().key).first;
  Entry& entry = place->second;
  // Before it can ask: whoever gives back what was denied to it must see it.
  waiting_.fetch_add(1, std::memory_order_release);
  try {
    if (!entry.line) entry.line = std::make_shared<WaitingLine>(*this, keeper_);
    keeper_->post([waiter, stop, keeper = keeper_, line = entry.line] {
      line->join(waiter, stop);
      waiter->heed(keeper, stop);
    });
  } catch (...) {
    if (entry.waiting == 0) lines_.erase(place);
    waiting_.fetch_sub(1, std::memory_order_release);
    throw;
  }
  ++entry.waiting;
}

void WaitingLines::left(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto entry = lines_.find(key);
  if (--entry->second.waiting == 0) lines_.erase(entry);
  waiting_.fetch_sub(1, std::memory_order_release);
}

void WaitingLines::ask(Wish wish, const std::stop_token& stop, Waiter::Finish finish) {
  const auto keeper = this->keeper();
  const auto waiter =
      std::make_shared<Waiter>(std::move(wish), std::nullopt, keeper->now(), std::move(finish));
  keeper->post([this, waiter, stop, keeper] {
    waiter->heed(keeper, stop);
    ask_directly(waiter);
  });
}

void WaitingLines::ask_directly(const std::shared_ptr<Waiter>& waiter) {
  if (waiter->is_done()) return;
  if (!nobody_waits(waiter->wish().key)) {
    join_or_end(waiter);
  } else if (waiter->ask(keeper(), [this, waiter] { settle(waiter); })) {
    settle(waiter);
  }
}

void WaitingLines::settle(const std::shared_ptr<Waiter>& waiter) {
  const Outcome& outcome = waiter->outcome();
  const Timekeeper::TimePoint now = keeper()->now();
  if (waiter->is_done()) {
    waiter->give_back();
    return;
  }
  if (outcome.error || outcome.decision.allowed || !can_wait(waiter->wish(), outcome, now)) {
    waiter->finish(outcome);
    return;
  }
  waiter->denied = outcome.decision;
  waiter->denied_at = now;
  join_or_end(waiter);
}

// On the timekeeper's thread, which nothing may be thrown on.
void WaitingLines::join_or_end(const std::shared_ptr<Waiter>& waiter) {
  try {
    join(waiter);
  } catch (const std::exception&) {
    waiter->finish({.error = std::current_exception(), .bound = &waiter->wish().slot->bound()});
  }
}

void WaitingLines::released(std::string_view key) {
  if (waiting_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  const auto entry = lines_.find(key);
  if (entry == lines_.end()) return;
  keeper_->post([line = entry->second.line] { line->released(); });
}

void WaitingLines::released_all() {
  if (waiting_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : lines_) {
    keeper_->post([line = entry.line] { line->released(); });
  }
}

void go_for(WaitingLines& lines, Wish wish, bool others_go_first, const std::stop_token& stop,
            const Waiter::Finish& finish) {
  Outcome outcome;
  try {
    if (others_go_first) return lines.wait(std::move(wish), std::nullopt, stop, finish);
    if (wish.slot->store()->answers_later()) return lines.ask(std::move(wish), stop, finish);
    outcome = ask_now(wish, Timekeeper::TimePoint::clock::now());
    if (!outcome.error && !outcome.decision.allowed && can_wait(wish, outcome, outcome.asked)) {
      return lines.wait(std::move(wish), outcome.decision, stop, finish);
    }
  } catch (const std::exception&) {
    outcome.error = std::current_exception();
  }
  finish(outcome);
}

Outcome wait_in_line(WaitingLines& lines, Wish wish, std::optional<Decision> denied,
                     const std::stop_token& stop) {
  struct {
    std::mutex mutex;
    std::condition_variable there;
    std::optional<Outcome> outcome;
  } answer;
  lines.wait(std::move(wish), std::move(denied), stop, [&answer](const Outcome& outcome) {
    const std::lock_guard lock(answer.mutex);
    answer.outcome = outcome;
    answer.there.notify_one();
  });
  std::unique_lock lock(answer.mutex);
  answer.there.wait(lock, [&] { return answer.outcome.has_value(); });
  return *answer.outcome;
}

}  // namespace sluice
