#include "limiter/waiter.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "limiter/give_back.h"
#include "limiter/permit_id.h"
#include "limiter/waiting_line.h"

namespace sluice {
namespace {

// What is left of the patience goes with what is reserved; permits know none.
Request request_for(const Wish& wish, const BoundLimit& bound, Timekeeper::TimePoint now) {
  Request request = bound.request(wish.key);
  request.cost = wish.cost;
  request.permit = wish.permit;
  if (wish.permit != 0) return request;
  const auto left =
      wish.until == Timekeeper::kEndOfTime ? std::chrono::nanoseconds::max() : wish.until - now;
  request.patience_ns = std::max<std::int64_t>(0, left.count());
  return request;
}

void return_to(Source giver, const Wish& wish, const Outcome& outcome) {
  Request back = outcome.bound->request(wish.key);
  back.cost = wish.cost;
  back.operation = outcome.permit == 0 ? Operation::kRefund : Operation::kRelease;
  back.permit = outcome.permit;
  back.giver = giver;
  give_back(wish.slot, *outcome.bound, back);
}

// The store may count a permit that nobody knows of. Under the same name it would count two, if it
// gives this one late and is asked again.
void disown_unanswered(Wish& wish, const Outcome& outcome) {
  if (outcome.permit == 0 || !outcome.is_unanswered()) return;
  return_to(Source::kUnanswered, wish, outcome);
  wish.permit = new_permit_id();
}

// Whether who is denied by such a limit can hope for later: a bucket takes what is to come already.
bool waits_in_line(const LimitDefinition& limit) {
  return std::ranges::any_of(limit.parts, [](const AnyPart& part) {
    return std::visit(
        []<class P>(const P&) {
          return !std::is_same_v<typename P::Algorithm::State, BucketState>;
        },
        part);
  });
}

}  // namespace

Outcome ask_now(Wish& wish, Timekeeper::TimePoint now) {
  Outcome outcome{.permit = wish.permit, .asked = now, .bound = &wish.slot->bound()};
  try {
    outcome.decision = wish.slot->ask(request_for(wish, *outcome.bound, now));
  } catch (...) {
    outcome.error = std::current_exception();
  }
  disown_unanswered(wish, outcome);
  return outcome;
}

Waiter::Waiter(Wish wish, std::optional<Decision> before, Timekeeper::TimePoint at, Finish finish)
    : denied(std::move(before)),
      denied_at(at),
      wish_(std::move(wish)),
      finish_(std::move(finish)) {}

void Waiter::heed(const std::shared_ptr<Timekeeper>& keeper, const std::stop_token& stop) {
  if (is_done() || !stop.stop_possible()) return;
  if (stop.stop_requested()) return leave();
  stop_.emplace(stop, [keeper, weak = weak_from_this()] {
    keeper->post([weak] {
      if (const auto waiter = weak.lock()) waiter->leave();
    });
  });
}

bool Waiter::ask(const std::shared_ptr<Timekeeper>& keeper, std::function<void()> then) {
  outcome_ = {.permit = wish_.permit, .asked = keeper->now(), .bound = &wish_.slot->bound()};
  request_ = request_for(wish_, *outcome_.bound, outcome_.asked);
  decision_ = {.source = Source::kUnanswered};
  fault.clear();
  requests = {&request_, 1};
  decisions = {&decision_, 1};
  self_ = shared_from_this();
  keeper_ = keeper;
  then_ = std::move(then);
  try {
    if (!wish_.slot->store()->submit_inquiry(*this)) return false;
  } catch (...) {
    outcome_.error = std::current_exception();
  }
  then_ = nullptr;
  const auto self = std::move(self_);
  self->take_answer();
  return true;
}

// On the store's thread, which must not be the one that lets go of the store: all goes over to the
// timekeeper's.
void Waiter::answered() noexcept {
  const auto keeper = std::move(keeper_);
  keeper->post([self = std::move(self_)] {
    self->take_answer();
    const auto then = std::move(self->then_);
    then();
  });
}

void Waiter::take_answer() {
  outcome_.decision = decision_;
  if (!outcome_.error && decision_.source == Source::kUnanswered) {
    outcome_.error =
        std::make_exception_ptr(StoreError(fault.empty() ? "the store did not answer" : fault));
  }
  disown_unanswered(wish_, outcome_);
}

void Waiter::leave() {
  if (is_done()) return;
  if (line) {
    line->leave(*this);
  } else {
    deny(denied_at);
  }
}

void Waiter::finish(const Outcome& outcome) {
  const auto self = shared_from_this();
  stop_.reset();
  const Finish finish = std::exchange(finish_, nullptr);
  finish(outcome);
}

void Waiter::deny(Timekeeper::TimePoint when) {
  Outcome outcome;
  outcome.bound = &wish_.slot->bound();
  outcome.decision = denied.value_or(Decision{.retry_after = kSoon});
  auto& retry_after = outcome.decision.retry_after;
  if (retry_after != kNever) {
    retry_after = std::max(std::chrono::nanoseconds(1), retry_after - (when - denied_at));
  }
  finish(outcome);
}

void Waiter::give_back() const {
  if (!outcome_.error && outcome_.decision.allowed) {
    return_to(outcome_.decision.source, wish_, outcome_);
  }
}

bool can_wait(const Wish& wish, const Outcome& denied, Timekeeper::TimePoint now) {
  if (denied.decision.retry_after == kNever) return false;
  // A permit may be given back at any time.
  if (wish.permit != 0) return now < wish.until;
  return waits_in_line(denied.bound->limit.definition()) &&
         Timekeeper::later(now, denied.decision.retry_after) <= wish.until;
}

}  // namespace sluice
