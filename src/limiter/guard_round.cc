#include "limiter/guard_round.h"

#include "algorithms/limit_definition.h"

namespace sluice {
namespace {

bool gives_back(Operation operation) {
  return operation == Operation::kRefund || operation == Operation::kRenew ||
         operation == Operation::kRelease;
}

}  // namespace

GuardedStore::Round::Round(GuardedStore& guard, const Question& question, std::span<std::byte> room)
    : guard_(guard),
      question_(question),
      sent_(question.now == kStoreTime ? guard.clock_.now() : question.now),
      memory_(room.data(), room.size()) {
  const std::size_t size = question_.requests.size();
  asked_.reserve(size);
  marks_.reserve(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    Mark mark{.ticket = {}, .position = i};
    if (!question_.together && (is_others(i) || is_denied_again(i, mark.ticket))) continue;
    Request& request = asked_.emplace_back(question_.requests[i]);
    request.space = GuardedSpace::of(request).inner.get();
    marks_.push_back(mark);
  }
  answers_.resize(asked_.size(), Decision{.source = Source::kUnanswered});
}

// What this process gave is given back to it, and what nobody gave, to nobody.
bool GuardedStore::Round::is_others(std::uint32_t position) {
  const Request& request = question_.requests[position];
  if (!gives_back(request.operation)) return false;
  Decision& decision = question_.decisions[position];
  if (request.giver == Source::kLocal && guard_.local_) {
    Request local = request;
    local.space = GuardedSpace::of(request).local.get();
    decision = guard_.local_->answer(local, sent_);
    return true;
  }
  if (request.giver != Source::kPolicy) return false;
  decision = policy_decision(OnFailure::kAllow, {&request, 1});
  return true;
}

// Takes are answered from it, and what a refund or reset ends is forgotten. What is blocked or
// charged stays denied. Not for permits: one may be given back long before retry_after.
bool GuardedStore::Round::uses_cache(const Request& request) const {
  const Operation operation = request.operation;
  return guard_.denials_ && !question_.together &&
         (operation == Operation::kTake || operation == Operation::kRefund ||
          operation == Operation::kReset) &&
         !lends(*request.limit);
}

// In the order of the batch: what a refund or reset makes possible is asked after it.
bool GuardedStore::Round::is_denied_again(std::uint32_t position, DenyCache::Ticket& ticket) {
  const Request& request = question_.requests[position];
  if (!uses_cache(request)) return false;
  DenyCache& denials = *guard_.denials_;
  const std::uint64_t space = GuardedSpace::of(request).number.load(std::memory_order_acquire);
  ticket = denials.take_ticket({.space = space, .key = request.key});
  if (request.operation != Operation::kTake) {
    denials.clear(ticket);
    return false;
  }
  if (question_.now != kStoreTime ||
      !denials.denies(ticket, request, sent_, question_.decisions[position])) {
    return false;
  }
  guard_.tally_.cached_denials.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void GuardedStore::Round::learn(const Request& request, const Mark& mark, const Decision& answer) {
  if (!uses_cache(request)) return;
  DenyCache& denials = *guard_.denials_;
  if (request.operation != Operation::kTake) {
    // Once more: what was denied since it was sent may have been denied before it was done.
    denials.clear(mark.ticket);
  } else if (!answer.allowed && answer.source == Source::kStore && question_.now == kStoreTime) {
    denials.remember(mark.ticket, request, sent_, answer);
  }
}

bool GuardedStore::Round::finish() {
  if (question_.together) {
    finish_together();
  } else {
    finish_each();
  }
  if (lost_ == 0) return false;
  Tally& tally = guard_.tally_;
  tally.unanswered.fetch_add(lost_, std::memory_order_relaxed);
  if (guard_.options_.on_failure == OnFailure::kRaise) return true;
  auto& answered = guard_.local_ ? tally.local_answers : tally.policy_answers;
  answered.fetch_add(lost_, std::memory_order_relaxed);
  return false;
}

void GuardedStore::Round::finish_each() {
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const Decision& answer = answers_[i];
    const Request& request = question_.requests[marks_[i].position];
    Decision& decision = question_.decisions[marks_[i].position];
    learn(request, marks_[i], answer);
    if (answer.source == Source::kUnanswered) {
      ++lost_;
      decision = answer_unanswered(request);
      continue;
    }
    decision = answer;
    if (!guard_.local_) continue;
    // Those that matter to the local states take the place of those that were asked, in order.
    if (const auto local = guard_.local_->following(request, answer)) {
      asked_[followers_] = *local;
      asked_[followers_++].space = GuardedSpace::of(request).local.get();
    }
  }
  flush_followers();
}

Decision GuardedStore::Round::answer_unanswered(const Request& request) {
  const OnFailure policy = guard_.options_.on_failure;
  if (policy == OnFailure::kRaise) return {.source = Source::kUnanswered};
  if (!guard_.local_) return policy_decision(policy, {&request, 1});
  flush_followers();
  Request local = request;
  local.space = GuardedSpace::of(request).local.get();
  return guard_.local_->answer(local, local_now());
}

void GuardedStore::Round::flush_followers() {
  if (followers_ == 0) return;
  // As many have been answered, at least: what is written over is not read again.
  guard_.local_->store().decide(std::span(asked_).first(followers_), sent_,
                                std::span(answers_).first(followers_));
  followers_ = 0;
}

void GuardedStore::Round::finish_together() {
  const OnFailure policy = guard_.options_.on_failure;
  const Decision answer = answers_[0];
  Decision& decision = question_.decisions[0];
  decision = answer;
  lost_ = answer.source == Source::kUnanswered ? 1 : 0;
  if (lost_ > 0 && (policy == OnFailure::kAllow || policy == OnFailure::kDeny)) {
    decision = policy_decision(policy, question_.requests);
  }
  if (!guard_.local_ || (lost_ == 0 && !answer.allowed)) return;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const Request& request = question_.requests[i];
    asked_[i] = request;
    asked_[i].space = GuardedSpace::of(request).local.get();
  }
  if (lost_ > 0) {
    decision = guard_.local_->answer_all(asked_, local_now());
    return;
  }
  // Each for itself: a share that is used up does not keep the others from being noted.
  for (const Request& request : asked_) {
    if (const auto local = guard_.local_->following(request, answer)) {
      asked_[followers_++] = *local;
    }
  }
  flush_followers();
}

}  // namespace sluice
