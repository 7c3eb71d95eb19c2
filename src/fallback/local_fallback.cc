#include "fallback/local_fallback.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cassert>
#include <cstddef>
#include <type_traits>
#include <variant>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/block.h"
#include "fallback/failure_policy.h"

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

// Whether the answer to this request says how many units of its key remain.
bool tells_remaining(const Request& request, const Decision& told) {
  const Operation operation = request.operation;
  return told.source == Source::kStore &&
         (takes(operation, 1) || operation == Operation::kCharge ||
          operation == Operation::kRefund) &&
         !lends(*request.limit);
}

}  // namespace

LocalFallback::LocalFallback(std::size_t max_bytes, std::int64_t shares)
    : shares_(shares), store_({.max_bytes = max_bytes, .table = {}}) {
  assert(shares_ >= 1);
}

void LocalFallback::mirror(const KeyHash& key, const Request& request, const Decision& told,
                           Instant sent) {
  const memory::Place place = store_.place_of(*request.space, key);
  if (is_repeated(request, told)) repeat(place, request, told, sent);
  if (tells_remaining(request, told)) store_.lower_at(place, request, sent, told.remaining);
}

// Whether the request itself is to be done here as well: what remains does not say all that it has
// changed.
bool LocalFallback::is_repeated(const Request& request, const Decision& told) const {
  switch (request.operation) {
    case Operation::kTake:
    case Operation::kTakeUpTo:
    case Operation::kCharge:
      if (lends(*request.limit)) return told.allowed && request.cost > 0;
      // Each unit counts as `shares`. Without shares, where nothing remains, there may be a debt.
      return told.allowed && (shares_ > 1 || told.remaining == 0);
    case Operation::kRefund:
    case Operation::kBlock:
    case Operation::kReset:
      return told.allowed;
    case Operation::kRenew:
    case Operation::kRelease:
      return true;
  }
  __builtin_unreachable();
}

void LocalFallback::repeat(const memory::Place& place, Request request, const Decision& told,
                           Instant sent) {
  request.parts = {};  // They are the store's.
  if (request.operation == Operation::kTakeUpTo) {
    request.operation = Operation::kTake;
    request.cost = told.taken;
  } else if (request.operation == Operation::kRenew && !told.allowed) {
    // Not held any more, whatever is known of it here.
    request.operation = Operation::kRelease;
  }
  request.cost = scaled_cost(request);
  Decision here;
  store_.decide_at(place, request, sent, here);
}

std::chrono::nanoseconds LocalFallback::reset_after(Request request, Instant now) {
  boost::container::small_vector<Decision, 1> parts(request.limit->parts.size());
  request.operation = Operation::kTake;
  request.cost = 0;
  request.parts = {parts.data(), parts.size()};
  static_cast<void>(ask(store_, request, now));
  return std::ranges::max(parts, {}, &Decision::reset_after).reset_after;
}

std::int64_t LocalFallback::units_that_count(const Request& request, Instant now) {
  const std::vector<AnyPart>& parts = request.limit->parts;
  if (parts.size() == 1) {
    Request peek = request;
    peek.operation = Operation::kTake;
    peek.cost = 0;
    const Decision here = ask(store_, peek, now);
    return ceil_divide(here.limit - here.remaining, shares_);
  }
  std::int64_t most = 0;
  std::int64_t least_bucket = kMaxCount;
  for (const AnyPart& part : parts) {
    const std::int64_t quota = numbers_of(part).quota;
    const bool is_bucket = std::visit(
        []<class P>(const P&) { return std::is_same_v<typename P::Algorithm::State, BucketState>; },
        part);
    most = std::max(most, quota);
    if (is_bucket) least_bucket = std::min(least_bucket, quota);
  }
  return std::min(most, least_bucket);
}

Decision LocalFallback::answer(std::span<const Request> requests, Instant now) {
  return requests.size() == 1 ? answer_one(requests[0], now) : answer_together(requests, now);
}

Decision LocalFallback::answer_one(const Request& request, Instant now) {
  if (lends(*request.limit)) return answer_for_permit(request, now);
  Request local = request;
  local.cost = scaled_cost(request);
  Decision decision = ask(store_, local, now);
  if (request.operation == Operation::kTakeUpTo) round_down(request, now, decision);
  for (Decision& part : request.parts) part = unscaled(part, request.cost);
  return unscaled(decision, request.cost);
}

Decision LocalFallback::answer_together(std::span<const Request> requests, Instant now) {
  std::vector<Request> local(requests.begin(), requests.end());
  for (Request& request : local) request.cost = scaled_cost(request);
  const Decision decision = store_.decide_all(local, now);
  for (const Request& request : requests) {
    for (Decision& part : request.parts) part = unscaled(part, request.cost);
  }
  return unscaled(decision, requests[decision.binding].cost);
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
