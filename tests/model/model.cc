#include "model/model.h"

#include <algorithm>

namespace sluice::model {
namespace {

bool all_admit(const std::vector<Decision>& answers) {
  return std::ranges::all_of(answers, [](const Decision& answer) { return answer.allowed; });
}

// The index of the binding part: if any denies, the first with the longest retry_after; otherwise
// the first with the least remaining.
std::size_t binding(const std::vector<Decision>& answers) {
  const auto longest = [](const Decision& a, const Decision& b) {
    return a.retry_after < b.retry_after;  // What admits has a retry_after of 0.
  };
  const auto least = [](const Decision& a, const Decision& b) { return a.remaining < b.remaining; };
  const auto found = all_admit(answers) ? std::ranges::min_element(answers, least)
                                        : std::ranges::max_element(answers, longest);
  return static_cast<std::size_t>(found - answers.begin());
}

// Combines the decisions of several parts, all or nothing.
Decision combine(const std::vector<Decision>& answers) {
  Decision all = answers[binding(answers)];
  all.binding = static_cast<std::uint8_t>(binding(answers));
  all.delay = {};
  for (const auto& answer : answers) {
    if (all.allowed) all.delay = std::max(all.delay, answer.delay);
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
    PartCall of_part = call;
    if ((request.uncounted_parts >> i & 1U) != 0) of_part.cost = 0;
    switch (request.operation) {
      case Operation::kTake:
        answers.push_back(part.take(limit, call));
        break;
      case Operation::kRefund:
        answers.push_back(part.refund(limit, of_part));
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

Model::Answers Model::attempt(const ModelRequest& request, Instant now, Key& key) {
  const bool blocked = now < key.blocked_until;
  const bool barred = blocked && request.operation == Operation::kTake && request.cost > 0;
  Key changed = key;
  Answers answers = act(request, now, changed);
  const bool admitted = all_admit(answers) && !barred;
  if (!admitted) {
    // Nothing is charged, so the parts that would admit answer as for a peek.
    const Answers as_it_is = peeks(request, now, key);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].allowed) answers[i] = as_it_is[i];
    }
  }
  for (Decision& answer : answers) {
    if (!blocked) continue;
    const std::chrono::nanoseconds left(static_cast<std::int64_t>(key.blocked_until - now));
    answer.remaining = 0;
    answer.reset_after = std::max(answer.reset_after, left);
    if (!barred) continue;
    answer.allowed = false;
    answer.retry_after = std::max(answer.retry_after, left);
  }
  if (admitted && request.cost > 0) {
    key = changed;
    if (!blocked) key.blocked_until = 0;
  }
  return answers;
}

ModelRequest Model::for_what_remains(ModelRequest request, Instant now, const Key& key) {
  std::int64_t units = request.cost;
  for (const auto& peek : peeks(request, now, key)) units = std::min(units, peek.remaining);
  for (auto& limit : request.limits) limit.borrow = false;
  if (request.cost > 0) request.cost = std::max<std::int64_t>(units, 1);
  request.operation = Operation::kTake;
  request.patience_ns = kDefaultPatience;
  return request;
}

Decision Model::decide(const ModelRequest& request, Instant now) {
  if (request.operation == Operation::kReset) keys_.erase({request.space, request.key});
  Key key = find(request);
  if (request.operation == Operation::kBlock) {
    key.blocked_until = std::max(key.blocked_until, Wide{now} + request.duration_ns);
  }
  const bool up_to = request.operation == Operation::kTakeUpTo;
  const ModelRequest asked = up_to ? for_what_remains(request, now, key) : request;
  parts_ = attempt(asked, now, key);
  Decision decision = combine(parts_);
  if (up_to && decision.allowed) decision.taken = asked.cost;
  const bool spends = request.cost > 0 && request.operation != Operation::kReset;
  if (request.operation == Operation::kBlock || (decision.allowed && spends)) keep(request, key);
  return decision;
}

Decision Model::decide_all(const std::vector<ModelRequest>& requests, Instant now) {
  if (requests.size() == 1) return decide(requests.front(), now);
  std::vector<Key> after;
  std::vector<Answers> of_parts;
  Answers answers;
  for (const auto& request : requests) {
    after.push_back(find(request));
    of_parts.push_back(attempt(request, now, after.back()));
    answers.push_back(combine(of_parts.back()));
  }
  const bool admitted = all_admit(answers);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (admitted && requests[i].cost > 0) keep(requests[i], after[i]);
    // If the list is denied, a request that would be admitted is not charged, and answers so.
    if (!admitted && answers[i].allowed) {
      ModelRequest peek = requests[i];
      peek.cost = 0;
      answers[i] = decide(peek, now);
      of_parts[i] = parts_;
    }
  }
  parts_.clear();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    parts_.push_back(answers[i]);
    parts_.insert(parts_.end(), of_parts[i].begin(), of_parts[i].end());
  }
  return combine(answers);
}

}  // namespace sluice::model
