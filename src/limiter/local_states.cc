#include "limiter/local_states.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/block.h"
#include "limiter/failure_policy.h"

namespace sluice {
namespace {

// How many permits the limit lends. REQUIRES: it lends.
std::int64_t& permits_of(LimitDefinition& limit) {
  return std::visit(
      []<class P>(P& part) -> std::int64_t& {
        if constexpr (LendingAlgorithm<typename P::Algorithm>) return part.params.limit;
        throw std::logic_error("a limit that lends nothing has no permits");
      },
      limit.parts[0]);
}

Decision ask(Store& store, const Request& request, Instant now) {
  Decision decision;
  store.decide({&request, 1}, now, {&decision, 1});
  return decision;
}

}  // namespace

bool LocalStates::follow(const Request& request, const Decision& answer, Request& local) const {
  local = request;
  switch (request.operation) {
    case Operation::kTake:
      if (!answer.allowed || request.cost == 0) return false;
      break;
    case Operation::kTakeUpTo:
      if (answer.taken == 0) return false;
      local.operation = Operation::kTake;
      local.cost = answer.taken;
      break;
    case Operation::kRenew:
      // Not held any more, whatever is known of it here.
      if (!answer.allowed) local.operation = Operation::kRelease;
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
  local.cost = scaled_cost(local);
  return true;
}

Decision LocalStates::answer(const Request& request, Instant now) {
  if (lends(*request.limit)) return answer_for_permit(request, now);
  Decision decision = ask(store_, scaled(request), now);
  if (request.operation == Operation::kTakeUpTo) round_down(request, now, decision);
  return unscaled(decision, request.cost);
}

Decision LocalStates::answer_all(std::span<const Request> requests, Instant now) {
  std::vector<Request> local;
  std::int64_t cost = 0;
  for (const Request& request : requests) {
    local.push_back(scaled(request));
    cost = std::max(cost, request.cost);
  }
  return unscaled(store_.decide_all(local, now), cost);
}

Decision LocalStates::answer_for_permit(Request request, Instant now) {
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
  return decision;
}

Request LocalStates::scaled(const Request& request) const {
  Request local = request;
  local.cost = scaled_cost(request);
  return local;
}

std::int64_t LocalStates::scaled_cost(const Request& request) const {
  if (shares_ == 1 || lends(*request.limit)) return request.cost;
  return checked_multiply(request.cost, shares_).value_or(kMaxInt64);
}

Decision LocalStates::unscaled(Decision decision, std::int64_t cost) const {
  decision.source = Source::kLocal;
  // What is beyond the share may be within the limit: the store may be back by then.
  if (decision.retry_after == kNever && cost <= decision.limit) decision.retry_after = kPolicyWait;
  decision.limit /= shares_;
  decision.remaining /= shares_;
  decision.taken /= shares_;
  return decision;
}

// Gives back what was taken of a unit that is not whole.
void LocalStates::round_down(const Request& request, Instant now, Decision& decision) {
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
