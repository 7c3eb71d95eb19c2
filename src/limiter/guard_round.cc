#include "limiter/guard_round.h"

#include <type_traits>

#include "algorithms/limit_definition.h"
#include "core/key_hash.h"

namespace sluice {
namespace {

bool gives_back(Operation operation) {
  return operation == Operation::kRefund || operation == Operation::kRenew ||
         operation == Operation::kRelease;
}

}  // namespace

GuardedStore::Round::Round(GuardedStore& guard, const Question& question, std::byte* room)
    : guard_(guard),
      question_(question),
      sent_(question.now == kStoreTime ? guard.asked_at() : question.now),
      asked_(reinterpret_cast<Request*>(room)),
      answers_(reinterpret_cast<Decision*>(asked_ + question.requests.size())),
      marks_(reinterpret_cast<Mark*>(answers_ + question.requests.size())) {
  static_assert(alignof(Decision) <= alignof(Request) && alignof(Mark) <= alignof(Decision) &&
                std::is_trivially_destructible_v<Request> &&
                std::is_trivially_destructible_v<Decision>);
  for (std::uint32_t i = 0; i < question_.requests.size(); ++i) {
    if (!question_.together && is_others(i)) continue;
    Mark& mark = *std::construct_at(marks_ + count_);
    mark.name = GuardedSpace::name_of(question_.requests[i],
                                      hash_key(question_.requests[i].key, guard.secret_));
    mark.position = i;
    if (is_denied_again(mark)) continue;
    Request& request = *std::construct_at(asked_ + count_, question_.requests[i]);
    request.space = GuardedSpace::of(request).inner.get();
    ++count_;
  }
  // Where all is asked, the answers have their places already.
  if (count_ == question_.requests.size()) answers_ = question_.decisions.data();
  for (Decision& answer : answers()) {
    std::construct_at(&answer, Decision{.source = Source::kUnanswered});
  }
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
         !GuardedSpace::of(request).lends;
}

// In the order of the batch: what a refund or reset makes possible is asked after it.
bool GuardedStore::Round::is_denied_again(const Mark& mark) {
  const Request& request = question_.requests[mark.position];
  if (!uses_cache(request)) return false;
  DenyCache& denials = *guard_.denials_;
  if (request.operation != Operation::kTake) {
    denials.clear(mark.name, guard_.clock_.now());
    return false;
  }
  if (question_.now != kStoreTime || !denials.may_deny(mark.name) ||
      !denials.denies(mark.name, request, guard_.clock_.now(),
                      question_.decisions[mark.position])) {
    return false;
  }
  guard_.tally_.cached_denials.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void GuardedStore::Round::learn(const Request& request, const Mark& mark, const Decision& answer) {
  const bool admitted = request.operation == Operation::kTake && answer.allowed;
  if (admitted || !uses_cache(request)) return;
  DenyCache& denials = *guard_.denials_;
  if (request.operation != Operation::kTake) {
    // Once more: what was denied since it was sent may have been denied before it was done, and by
    // other numbers.
    denials.clear(GuardedSpace::name_of(request, mark.name.key), guard_.clock_.now());
  } else if (answer.source == Source::kStore && question_.now == kStoreTime) {
    denials.remember(mark.name, request, sent_, answer);
  }
}

void GuardedStore::Round::expect(Followers& followers, std::size_t first) const {
  for (std::size_t i = first; i < count_ && followers.may_expect(); ++i) {
    const Request& request = question_.requests[marks_[i].position];
    followers.expect(*GuardedSpace::of(request).local, marks_[i].name.key);
  }
}

bool GuardedStore::Round::finish(Followers& followers) {
  if (question_.together) {
    finish_together(followers);
  } else {
    finish_each(followers);
  }
  if (lost_ == 0) return false;
  Tally& tally = guard_.tally_;
  tally.unanswered.fetch_add(lost_, std::memory_order_relaxed);
  if (guard_.options_.on_failure == OnFailure::kRaise) return true;
  auto& answered = guard_.local_ ? tally.local_answers : tally.policy_answers;
  answered.fetch_add(lost_, std::memory_order_relaxed);
  return false;
}

void GuardedStore::Round::finish_each(Followers& followers) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (i > 0 && i % Followers::kMost == 0) {
      expect(followers, i);
      followers.fetch();
    }
    const Decision& answer = answers_[i];
    const Request& request = question_.requests[marks_[i].position];
    Decision& decision = question_.decisions[marks_[i].position];
    if (&decision != &answer) decision = answer;
    // Nobody else has given it: whatever the local states hold of that name is their own.
    if (request.giver == Source::kUnanswered) continue;
    learn(request, marks_[i], answer);
    if (answer.source == Source::kUnanswered) {
      ++lost_;
      followers.flush();  // In their order.
      decision = answer_unanswered(request);
      continue;
    }
    follow(marks_[i], answer, followers);
  }
}

void GuardedStore::Round::follow(const Mark& mark, const Decision& answer, Followers& followers) {
  const Request& request = question_.requests[mark.position];
  followers.add({.request = request,
                 .key = mark.name.key,
                 .answer = answer,
                 .sent = sent_,
                 .space = GuardedSpace::of(request).local.get()});
}

Decision GuardedStore::Round::answer_unanswered(const Request& request) {
  const OnFailure policy = guard_.options_.on_failure;
  if (policy == OnFailure::kRaise) return {.source = Source::kUnanswered};
  if (!guard_.local_) return policy_decision(policy, {&request, 1});
  Request local = request;
  local.space = GuardedSpace::of(request).local.get();
  return guard_.local_->answer(local, local_now());
}

void GuardedStore::Round::finish_together(Followers& followers) {
  const OnFailure policy = guard_.options_.on_failure;
  const Decision answer = answers_[0];
  Decision& decision = question_.decisions[0];
  decision = answer;
  lost_ = answer.source == Source::kUnanswered ? 1 : 0;
  if (lost_ > 0 && (policy == OnFailure::kAllow || policy == OnFailure::kDeny)) {
    decision = policy_decision(policy, question_.requests);
  }
  if (!guard_.local_) return;
  if (lost_ == 0) {
    // Each for itself: a share that is used up does not keep the others from being noted.
    for (std::size_t i = 0; i < count_; ++i) follow(marks_[i], answer, followers);
    return;
  }
  followers.flush();
  for (std::size_t i = 0; i < count_; ++i) {
    asked_[i].space = GuardedSpace::of(question_.requests[i]).local.get();
  }
  decision = guard_.local_->answer_all({asked_, count_}, local_now());
}

}  // namespace sluice
