#include "model/model.h"

#include <algorithm>

namespace sluice::model {
namespace {

// One answer for several parts that stand or fall together.
Decision combine(const std::vector<Decision>& answers) {
  Decision all = answers.front();
  for (const auto& answer : answers) {
    if (answer.remaining < all.remaining) {
      all.remaining = answer.remaining;
      all.limit = answer.limit;
    }
    all.allowed = all.allowed && answer.allowed;
    const bool never = all.retry_after == kNever || answer.retry_after == kNever;
    all.retry_after = never ? kNever : std::max(all.retry_after, answer.retry_after);
    all.reset_after = std::max(all.reset_after, answer.reset_after);
    all.delay = std::max(all.delay, answer.delay);
  }
  return all;
}

}  // namespace

std::string expression(const ModelLimits& limits) {
  std::string text;
  for (const auto& limit : limits) text += (text.empty() ? "" : " & ") + limit.expression();
  return text;
}

bool definable(const ModelLimits& limits) {
  return !limits.empty() && limits.size() <= 8 &&
         std::all_of(limits.begin(), limits.end(), [](const auto& l) { return l.definable(); });
}

Model::Parts Model::find(const ModelRequest& request) const {
  Parts parts(request.limits.size());
  const auto found = keys_.find({request.space, request.key});
  if (found == keys_.end()) return parts;
  for (std::size_t i = 0; i < parts.size() && i < found->second.size(); ++i) {
    if (found->second[i].readable_under(request.limits[i])) parts[i] = found->second[i];
  }
  return parts;
}

Decision Model::decide(const ModelRequest& request, Instant now) {
  if (request.operation == Operation::kTake) return decide_all({request}, now);
  if (request.operation == Operation::kReset) keys_.erase({request.space, request.key});
  Parts parts = find(request);
  const std::int64_t units = request.operation == Operation::kRefund ? request.cost : 0;
  std::vector<Decision> answers;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    answers.push_back(parts[i].refund(request.limits[i], {.now = now, .cost = units}));
  }
  if (units > 0) keys_[{request.space, request.key}] = parts;
  return combine(answers);
}

Decision Model::decide_all(const std::vector<ModelRequest>& requests, Instant now) {
  std::vector<Parts> before;
  std::vector<Parts> after;
  std::vector<Decision> if_charged;
  std::vector<Decision> if_not;
  for (const auto& request : requests) {
    before.push_back(find(request));
    after.push_back(before.back());
    const PartCall call{.now = now, .cost = request.cost, .patience_ns = request.patience_ns};
    for (std::size_t i = 0; i < request.limits.size(); ++i) {
      const ModelLimit& limit = request.limits[i];
      if_charged.push_back(after.back()[i].take(limit, call));
      // Denied as a whole, a part that would admit stays uncharged and says so.
      if_not.push_back(if_charged.back().allowed ? before.back()[i].peek(limit, now)
                                                 : if_charged.back());
    }
  }
  const Decision charged = combine(if_charged);
  if (!charged.allowed) return combine(if_not);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].cost > 0) keys_[{requests[i].space, requests[i].key}] = after[i];
  }
  return charged;
}

}  // namespace sluice::model
