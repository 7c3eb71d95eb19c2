#include "fallback/local_fallback.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cassert>
#include <variant>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/block.h"

namespace sluice {
namespace {

// How many permits there are. REQUIRES: it is a limit of permits.
std::int64_t& permits_of(LimitDefinition& limit) {
  return std::get<Part<Concurrency>>(limit.parts[0]).params.limit;
}

Decision ask(Store& store, const Request& request, Instant now) {
  Decision decision;
  store.decide({&request, 1}, now, {&decision, 1});
  return decision;
}

}  // namespace

LocalFallback::LocalFallback(std::size_t max_bytes, std::int64_t shares)
    : shares_(shares), store_({.max_bytes = max_bytes, .table = {}}) {
  assert(shares_ >= 1);
}

bool LocalFallback::make_change(Request& request, const Decision& answer) const {
  switch (request.operation) {
    case Operation::kTake:
      if (!answer.allowed || request.cost == 0) return false;
      break;
    case Operation::kTakeUpTo:
      if (answer.taken == 0) return false;
      request.operation = Operation::kTake;
      request.cost = answer.taken;
      break;
    case Operation::kRenew:
      // Not held any more, whatever is known of it here.
      if (!answer.allowed) request.operation = Operation::kRelease;
      break;
    case Operation::kRelease:
      break;
    case Operation::kCharge:
    case Operation::kRefund:
    case Operation::kBlock:
    case Operation::kReset:
      if (!answer.allowed) return false;
      break;
  }
  request.cost = scaled_cost(request);
  return true;
}

void LocalFallback::mirror(std::span<const Request> changes, Instant sent) {
  boost::container::small_vector<Decision, 1> ignored(changes.size());
  store_.decide(changes, sent, ignored);
}

Decision LocalFallback::answer(const Request& request, Instant now) {
  if (lends(*request.limit)) return answer_for_permit(request, now);
  Request local = request;
  local.cost = scaled_cost(request);
  Decision decision = ask(store_, local, now);
  if (request.operation == Operation::kTakeUpTo) round_down(request, now, decision);
  for (Decision& part : request.parts) part = unscaled(part, request.cost);
  return unscaled(decision, request.cost);
}

Decision LocalFallback::answer_all(std::span<const Request> requests, Instant now) {
  std::vector<Request> local;
  std::int64_t cost = 0;
  for (const Request& request : requests) {
    local.push_back(request);
    local.back().cost = scaled_cost(request);
    cost = std::max(cost, request.cost);
  }
  const Decision decision = store_.decide_all(local, now);
  for (const Request& request : requests) {
    for (Decision& part : request.parts) part = unscaled(part, request.cost);
  }
  return unscaled(decision, cost);
}

Decision LocalFallback::answer_for_permit(Request request, Instant now) {
  LimitDefinition share = *request.limit;
  const std::int64_t permits = permits_of(share) /= shares_;
  request.limit = &share;
  Decision decision;
  // No algorithm knows a limit of none.
  if (permits == 0 && takes(request.operation, request.cost)) {
    decision = {.retry_after = kPolicyWait};
  } else {
    decision = ask(store_, request, now);
  }
  decision.source = Source::kLocal;
  if (!request.parts.empty()) request.parts[0] = decision;
  return decision;
}

std::int64_t LocalFallback::scaled_cost(const Request& request) const {
  if (shares_ == 1 || lends(*request.limit)) return request.cost;
  return checked_multiply(request.cost, shares_).value_or(kMaxInt64);
}

Decision LocalFallback::unscaled(Decision decision, std::int64_t cost) const {
  decision.source = Source::kLocal;
  // What is beyond the share may be within the limit: the store may be back by then.
  if (decision.retry_after == kNever && cost <= decision.limit) decision.retry_after = kPolicyWait;
  decision.limit /= shares_;
  decision.remaining /= shares_;
  decision.taken /= shares_;
  return decision;
}

// Gives back what was taken of a unit that is not whole.
void LocalFallback::round_down(const Request& request, Instant now, Decision& decision) {
  const std::int64_t rest = decision.taken % shares_;
  if (rest == 0) return;
  Request refund = request;
  refund.operation = Operation::kRefund;
  refund.cost = rest;
  const std::int64_t taken = decision.taken - rest;
  decision = ask(store_, refund, now);
  decision.taken = taken;
  if (taken > 0) return;
  decision.allowed = false;
  decision.retry_after = kPolicyWait;
}

}  // namespace sluice
