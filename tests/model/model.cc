#include "model/model.h"

#include <algorithm>

namespace sluice::model {
namespace {

// Combines the decisions of several parts, all or nothing.
Decision combine(const std::vector<Decision>& answers) {
  Decision all = answers.front();
  for (const auto& answer : answers) {
    if (answer.remaining < all.remaining) {
      all.remaining = answer.remaining;
      all.limit = answer.limit;
    }
    all.allowed = all.allowed && answer.allowed;
    all.retry_after = std::max(all.retry_after, answer.retry_after);
    all.reset_after = std::max(all.reset_after, answer.reset_after);
    all.delay = std::max(all.delay, answer.delay);
  }
  return all;
}

}  // namespace

bool lends(const ModelLimits& limits) {
  return std::ranges::any_of(limits, [](const auto& l) { return l.kind == Kind::kConcurrency; });
}

std::string expression(const ModelLimits& limits) {
  std::string text;
  for (const auto& limit : limits) text += (text.empty() ? "" : " & ") + limit.expression();
  return text;
}

bool definable(const ModelLimits& limits) {
  return !limits.empty() && limits.size() <= (lends(limits) ? 1 : 8) &&
         std::all_of(limits.begin(), limits.end(), [](const auto& l) { return l.definable(); });
}

Model::Key Model::find(const ModelRequest& request) const {
  Key key;
  const auto found = keys_.find({request.space, request.key});
  if (found != keys_.end()) key = found->second;
  key.parts.resize(request.limits.size());
  for (std::size_t i = 0; i < key.parts.size(); ++i) {
    if (!key.parts[i].readable_under(request.limits[i])) key.parts[i] = {};
  }
  return key;
}

void Model::keep(const ModelRequest& request, const Key& key) {
  keys_[{request.space, request.key}] = key;
}

Model::Answers Model::peeks(const ModelRequest& request, Instant now, const Key& key) {
  if (lends(request.limits)) return {key.permits.peek(request.limits.front(), now)};
  Answers answers;
  for (std::size_t i = 0; i < key.parts.size(); ++i) {
    answers.push_back(key.parts[i].peek(request.limits[i], now));
  }
  return answers;
}

Model::Answers Model::act_on_permits(const ModelRequest& request, const PartCall& call, Key& key) {
  const ModelLimit& limit = request.limits.front();
  switch (request.operation) {
    case Operation::kTake:
      return {key.permits.take(limit, call)};
    case Operation::kRenew:
      return {key.permits.renew(limit, call)};
    case Operation::kRelease:
      return {key.permits.release(limit, call)};
    default:
      return {key.permits.peek(limit, call.now)};
  }
}

Model::Answers Model::act(const ModelRequest& request, Instant now, Key& key) {
  const PartCall call{.now = now,
                      .cost = request.cost,
                      .patience_ns = request.patience_ns,
                      .permit = request.permit};
  if (lends(request.limits)) return act_on_permits(request, call, key);
  Answers answers;
  for (std::size_t i = 0; i < key.parts.size(); ++i) {
    const ModelLimit& limit = request.limits[i];
    PartState& part = key.parts[i];
    switch (request.operation) {
      case Operation::kTake:
        answers.push_back(part.take(limit, call));
        break;
      case Operation::kRefund:
        answers.push_back(part.refund(limit, call));
        break;
      case Operation::kCharge:
        answers.push_back(part.charge(limit, call));
        break;
      default:
        answers.push_back(part.peek(limit, now));
    }
  }
  return answers;
}

Decision Model::attempt(const ModelRequest& request, Instant now, Key& key) {
  const bool blocked = now < key.blocked_until;
  const bool barred = blocked && request.operation == Operation::kTake && request.cost > 0;
  Key changed = key;
  Answers answers = act(request, now, changed);
  const bool admitted = combine(answers).allowed;
  if (!admitted || barred) {
    // Nothing is charged, so the parts that would admit answer as for a peek.
    const Answers as_it_is = peeks(request, now, key);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].allowed) answers[i] = as_it_is[i];
    }
  }
  Decision decision = combine(answers);
  if (blocked) {
    const std::chrono::nanoseconds left(static_cast<std::int64_t>(key.blocked_until - now));
    decision.remaining = 0;
    decision.reset_after = std::max(decision.reset_after, left);
    if (barred && decision.retry_after != kNever) {
      decision.retry_after = std::max(decision.retry_after, left);
    }
    if (barred) decision.allowed = false;
  }
  if (decision.allowed && request.cost > 0) {
    key = changed;
    if (!blocked) key.blocked_until = 0;
  }
  return decision;
}

Decision Model::take_up_to(ModelRequest request, Instant now, Key& key) {
  std::int64_t units = request.cost;
  for (const auto& peek : peeks(request, now, key)) units = std::min(units, peek.remaining);
  for (auto& limit : request.limits) limit.borrow = false;
  if (request.cost > 0) request.cost = std::max<std::int64_t>(units, 1);
  request.operation = Operation::kTake;
  request.patience_ns = kDefaultPatience;
  Decision decision = attempt(request, now, key);
  if (decision.allowed) decision.taken = units;
  return decision;
}

Decision Model::decide(const ModelRequest& request, Instant now) {
  if (request.operation == Operation::kReset) keys_.erase({request.space, request.key});
  Key key = find(request);
  if (request.operation == Operation::kBlock) {
    key.blocked_until = std::max(key.blocked_until, Wide{now} + request.duration_ns);
  }
  const Decision decision = request.operation == Operation::kTakeUpTo
                                ? take_up_to(request, now, key)
                                : attempt(request, now, key);
  const bool spends = request.cost > 0 && request.operation != Operation::kReset;
  if (request.operation == Operation::kBlock || (decision.allowed && spends)) keep(request, key);
  return decision;
}

Decision Model::decide_all(const std::vector<ModelRequest>& requests, Instant now) {
  std::vector<Key> after;
  Answers answers;
  for (const auto& request : requests) {
    after.push_back(find(request));
    answers.push_back(attempt(request, now, after.back()));
  }
  const bool admitted = combine(answers).allowed;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (admitted && requests[i].cost > 0) keep(requests[i], after[i]);
    // If the list is denied, a request that would be admitted is not charged, and answers so.
    if (!admitted && answers[i].allowed) {
      ModelRequest peek = requests[i];
      peek.cost = 0;
      answers[i] = decide(peek, now);
    }
  }
  return combine(answers);
}

}  // namespace sluice::model
