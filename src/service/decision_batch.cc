#include "service/decision_batch.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "algorithms/limit_definition.h"
#include "core/block.h"
#include "service/claims.h"
#include "waiting/returns.h"
#include "waiting/wait_queues.h"

namespace sluice {
namespace {

using Owners = std::vector<std::shared_ptr<const void>>;
using SteadyClock = std::chrono::steady_clock;

std::int64_t ns_since(SteadyClock::time_point begin) {
  return std::chrono::nanoseconds(SteadyClock::now() - begin).count();
}

// Whether no store knows of what is to be returned or settled: an override granted it, or a limit
// in a dry run that would have denied it, or it is a permit that a full store granted without a
// record (full=allow).
bool is_unrecorded(const Request& request) {
  return request.giver == Source::kOverride ||
         (request.giver == Source::kFull && request.permit != 0);
}

// The decision of an override that does not ask the store; nothing if the store is to be asked.
std::optional<Decision> override_decision(LimitOverride::Kind kind, const Request& request,
                                          const ReplySlot& slot) {
  const bool is_returned = request.operation == Operation::kRenew ||
                           request.operation == Operation::kRelease ||
                           request.operation == Operation::kRefund;
  // What no store has recorded is returned to no store, even if the override has gone since. A
  // charge has such a giver if it settles what was reserved.
  const bool is_settled = is_returned || request.operation == Operation::kCharge;
  const bool is_free = is_settled && is_unrecorded(request);
  // What the store granted before there was the override, a permit or reserved units, is returned
  // there.
  const bool is_of_store = (slot.settles || (is_returned && request.permit != 0)) && !is_free;
  if (request.operation == Operation::kReset || is_of_store) return std::nullopt;
  if (kind == LimitOverride::Kind::kAllowAll || is_free) {
    const bool takes_up_to = request.operation == Operation::kTakeUpTo;
    return Decision{.allowed = true,
                    .source = Source::kOverride,
                    .limit = kUnlimited,
                    .remaining = kUnlimited,
                    .taken = takes_up_to ? request.cost : 0};
  }
  if (kind != LimitOverride::Kind::kDeny) return std::nullopt;
  Decision decision{.allowed = !can_be_denied(request.operation, request.cost),
                    .source = Source::kOverride};
  if (!decision.allowed) decision.retry_after = kNever;
  return decision;
}

// Asks round after round, until the claims are decided.
void submit_round(const std::shared_ptr<Store>& store, const std::shared_ptr<Claims>& claims,
                  const std::shared_ptr<PendingAnswers>& pending, const Owners& owners) {
  if (claims->is_decided()) return pending->receive(claims->finish());
  auto batch = std::make_unique<Batch>(claims->requests(), claims->mode());
  for (const auto& owner : owners) batch->keep(owner);
  batch->completion = [store, claims, pending, owners](Batch& answered) {
    const bool is_lost = std::ranges::any_of(answered.decisions(), [](const Decision& decision) {
      return decision.source == Source::kUnavailable;
    });
    is_lost ? claims->fail(answered.error())
            : claims->take(answered.decisions(), answered.requests());
    submit_round(store, claims, pending, owners);
  };
  try {
    store->submit(std::move(batch));
  } catch (const std::invalid_argument& error) {
    claims->refuse(error.what());
    pending->receive(claims->finish());
  }
}

}  // namespace

void PendingAnswers::receive(const Batch& batch) {
  answers_.decisions.assign(batch.decisions().begin(), batch.decisions().end());
  answers_.error = batch.error();
  answers_.settle(batch.requests());
  complete();
}

void PendingAnswers::receive(Answers&& answers) {
  answers_ = std::move(answers);
  complete();
}

void PendingAnswers::complete() {
  answers_.duration_ns = ns_since(asked_at_);
  // Once the state is kReady, this belongs to the connection's thread.
  const std::function<void()> wake = std::move(wake_);
  if (state_.exchange(State::kReady, std::memory_order_acq_rel) == State::kWaiting) wake();
}

bool PendingAnswers::wait() {
  State submitted = State::kSubmitted;
  return state_.compare_exchange_strong(submitted, State::kWaiting, std::memory_order_acq_rel);
}

void DecisionBatch::clear() {
  size_ = 0;
  answers_.slots.clear();
  answers_.other_replies.clear();
  answers_.together.reset();
  answers_.duration_ns.reset();
  answers_.denials.clear();
  owners_.clear();
  followed_.clear();
  if (answers_.is_mixed) {
    answers_.is_mixed = false;
    answers_.overridden.clear();
    answers_.dry_run_units.clear();
  }
}

void DecisionBatch::add(const std::shared_ptr<const RegisteredLimit>& limit, Request request,
                        ReplySlot slot) {
  slot.limit = limit->number;
  const bool is_special = limit->overrides != nullptr || limit->dry_run || is_unrecorded(request);
  if (is_special) return add_special(limit, request, slot);
  add_asked(limit, *limit, request, slot);
}

// Adds a request that the store decides, by this limit. A reset is noted when it begins and when it
// has ended: what was reserved before is not returned after it (WaitingCallers::was_reset()).
void DecisionBatch::add_asked(const std::shared_ptr<const RegisteredLimit>& owner,
                              const BoundLimit& limit, Request request, ReplySlot slot) {
  request.limit = &limit.limit.definition();
  request.space = limit.space.get();
  const bool is_reset = request.operation == Operation::kReset;
  const bool acquires = request.permit != 0 && request.operation == Operation::kTake;
  if (is_reset || (acquires && answers_later_)) followed_.push_back({size_, {owner, &limit}});
  if (is_reset) WaitQueues::of(*limit.space)->callers().begin_reset(request.key);
  add_bound(request, slot, owner);
}

void DecisionBatch::add_special(const std::shared_ptr<const RegisteredLimit>& limit,
                                const Request& request, ReplySlot slot) {
  const KeyRule* const rule = limit->rule_of(request.key);
  answers_.is_mixed = true;
  slot.is_dry_run = limit->dry_run;
  slot.is_take_up_to = request.operation == Operation::kTakeUpTo;
  if (limit->dry_run) answers_.dry_run_units.push_back(request.cost);
  const auto kind = rule == nullptr ? LimitOverride::Kind::kLimit : rule->kind;
  if (const auto decision = override_decision(kind, request, slot)) {
    slot.is_answered = true;
    push_slot(request, slot);
    answers_.overridden.push_back(*decision);
    return;
  }
  const BoundLimit* bound = limit.get();
  if (rule != nullptr) bound = rule;
  add_asked(limit, *bound, request, slot);
}

void DecisionBatch::repeat(std::string_view key) {
  assert(size_ != 0 && size_ < kMaxRequests);
  const Request& last = requests_[size_ - 1];
  assert(last.permit == 0 && last.duration_ns == 0);  // Such requests are not repeated.
  // Not copied as a block: that would stall, because the members of the last request were written
  // separately just before (store forwarding).
  requests_[size_++] = {.limit = last.limit,
                        .space = last.space,
                        .key = key,
                        .operation = last.operation,
                        .cost = last.cost,
                        .patience_ns = last.patience_ns};
  answers_.slots.push_back(answers_.slots.back());
}

std::shared_ptr<PendingAnswers> DecisionBatch::ask(ReplyWriter& writer,
                                                   const std::function<void()>& wake,
                                                   std::string& output) {
  if (is_empty()) return nullptr;
  if (answers_later_ && size_ != 0) {
    auto pending = answers_.together ? submit_claims(wake) : submit(wake);
    if (pending->wait()) return pending;
    pending->get().write(writer, counters_, output);
  } else {
    const bool asks = size_ != 0;
    const auto begin = SteadyClock::now();
    answers_.together ? decide_claims() : decide();
    if (asks) answers_.duration_ns = ns_since(begin);
    answers_.write(writer, counters_, output);
  }
  clear();
  return nullptr;
}

void DecisionBatch::follow_up(const std::shared_ptr<Store>& store,
                              const std::vector<Followed>& followed,
                              std::span<const Request> requests,
                              std::span<const Decision> decisions) {
  for (const auto& [index, limit] : followed) {
    const Request& request = requests[index];
    if (request.operation == Operation::kReset) {
      WaitQueues::of(*limit->space)->callers().end_reset(request.key);
    } else if (may_be_executed(decisions[index])) {
      reclaim(store, limit, request.key, request.permit);
    }
  }
}

void DecisionBatch::decide() {
  if (answers_.decisions.size() < size_) answers_.decisions.resize(size_);
  const auto decisions = std::span(answers_.decisions).first(size_);
  try {
    if (size_ != 0) store_->decide(requests(), kStoreTime, decisions);
  } catch (const StoreError& error) {
    answers_.error = error.what();
    std::fill(decisions.begin(), decisions.end(), Decision{.source = Source::kUnavailable});
  }
  follow_up(store_, followed_, requests(), decisions);
  answers_.settle(requests());
}

std::shared_ptr<PendingAnswers> DecisionBatch::submit(const std::function<void()>& wake) {
  auto batch = std::make_unique<Batch>(requests());
  for (auto& owner : owners_) batch->keep(std::move(owner));
  auto pending = std::make_shared<PendingAnswers>(std::exchange(answers_, {}), wake);
  if (followed_.empty()) {
    batch->completion = [pending](Batch& answered) { pending->receive(answered); };
  } else {
    batch->completion = [store = store_, followed = std::move(followed_),
                         pending](Batch& answered) {
      follow_up(store, followed, answered.requests(), answered.decisions());
      pending->receive(answered);
    };
  }
  clear();
  store_->submit(std::move(batch));
  return pending;
}

std::shared_ptr<PendingAnswers> DecisionBatch::submit_claims(const std::function<void()>& wake) {
  const auto claims = std::make_shared<Claims>(std::exchange(answers_, {}), requests());
  const auto pending = std::make_shared<PendingAnswers>(Answers(), wake);
  submit_round(store_, claims, pending, std::exchange(owners_, {}));
  clear();
  return pending;
}

void DecisionBatch::decide_claims() {
  Claims claims(std::exchange(answers_, {}), requests());
  while (!claims.is_decided()) {
    const auto asked = claims.requests();
    std::vector<Decision> decisions(asked.size(), Decision{.source = Source::kUnavailable});
    try {
      if (claims.mode() == Batch::Mode::kTogether) {
        decisions[0] = store_->decide_all(asked, kStoreTime);
      } else {
        store_->decide(asked, kStoreTime, decisions);
      }
      claims.take(decisions, asked);
    } catch (const StoreError& error) {
      claims.fail(error.what());
    } catch (const std::invalid_argument& error) {
      claims.refuse(error.what());
    }
  }
  answers_ = claims.finish();
}

}  // namespace sluice
