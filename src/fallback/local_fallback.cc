#include "fallback/local_fallback.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cassert>
#include <cstddef>
#include <mutex>
#include <type_traits>
#include <variant>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/block.h"
#include "fallback/failure_policy.h"

namespace sluice {
namespace {

constexpr std::size_t kStripes = 4096;

// How many permits there are. REQUIRES: it is a limit of permits.
std::int64_t& permits_of(LimitDefinition& limit) {
  return std::get<Part<Concurrency>>(limit.parts[0]).params.limit;
}

Decision ask(Store& store, const Request& request, Instant now) {
  Decision decision;
  store.decide({&request, 1}, now, {&decision, 1});
  return decision;
}

std::int64_t least_quota(const LimitDefinition& limit) {
  std::int64_t least = kMaxInt64;
  for (const AnyPart& part : limit.parts) least = std::min(least, numbers_of(part).quota);
  return least;
}

// Whether a fresh key would admit it.
bool can_be_admitted(const LimitDefinition& limit, std::int64_t cost) {
  return std::ranges::all_of(limit.parts, [&](const AnyPart& part) {
    const auto is_admitted = [&]<class P>(const P& p) {
      using A = typename P::Algorithm;
      return A::take(p.params, typename A::State{}, {.now = 0, .cost = cost}).decision.allowed;
    };
    return std::visit(is_admitted, part);
  });
}

// How many of the units that remain the store may take away for a request: at most all of them.
std::int64_t charged_units(const Request& request) {
  const bool charges = request.operation == Operation::kCharge;
  if (!charges && !takes(request.operation, request.cost)) return 0;
  const std::int64_t quota = least_quota(*request.limit);
  if (request.cost <= quota) return request.cost;
  const bool is_denied =
      request.operation == Operation::kTake && !can_be_admitted(*request.limit, request.cost);
  return is_denied ? 0 : quota;
}

// Whether the store says with this answer how many units of its key remain.
bool tells_remaining(const Request& request, const Decision& told) {
  const Operation operation = request.operation;
  return told.source == Source::kStore &&
         (takes(operation, 1) || operation == Operation::kCharge ||
          operation == Operation::kRefund) &&
         !lends(*request.limit);
}

}  // namespace

LocalFallback::LocalFallback(std::size_t max_bytes, std::int64_t shares)
    : shares_(shares),
      stripes_(std::make_unique<Stripe[]>(kStripes)),
      store_({.max_bytes = max_bytes, .table = {}}) {
  assert(shares_ >= 1);
}

LocalFallback::Stripe& LocalFallback::stripe_of(const KeyHash& key, const Space& space) const {
  const auto which = reinterpret_cast<std::uintptr_t>(&space) / alignof(std::max_align_t);
  return stripes_[(key.low ^ which) % kStripes];
}

std::int64_t LocalFallback::expect(const KeyHash& key, const Space& space, const Request& request) {
  const memory::Place place = store_.place_of(space, key);
  place.shard->prefetch(place.tag);
  const std::int64_t units = charged_units(request);
  Stripe& stripe = stripe_of(key, space);
  const std::lock_guard lock(stripe.lock);
  stripe.unsettled += units;
  return units;
}

void LocalFallback::forget(const KeyHash& key, const Space& space, std::int64_t expected) {
  Stripe& stripe = stripe_of(key, space);
  const std::lock_guard lock(stripe.lock);
  stripe.unsettled -= expected;
}

void LocalFallback::mirror(const KeyHash& key, const Request& asked, std::int64_t expected,
                           const Decision& told, Instant sent) {
  Request request = asked;
  request.parts = {};  // They are the store's.
  const bool tells = tells_remaining(request, told);
  const bool changes = make_change(request, told);
  if (!changes) {
    request.operation = Operation::kTake;
    request.cost = 0;
  }
  Stripe& stripe = stripe_of(key, *request.space);
  // Two threads that mirror answers of one key must not both charge what other processes used.
  const std::lock_guard lock(stripe.lock);
  stripe.unsettled -= expected;
  if (!changes && !tells) return;
  const memory::Place place = store_.place_of(*request.space, key);
  Decision here;
  store_.decide_at(place, request, sent, here);
  // What the store has counted beside the requests of this process was used by other processes.
  const std::int64_t excess = here.remaining - told.remaining - stripe.unsettled;
  if (!tells || excess <= 0) [[likely]]
    return;
  request.operation = Operation::kCharge;
  request.cost = excess;
  store_.decide_at(place, request, sent, here);
}

// Makes of a request, to which the store has given this answer, what is to be done here. False
// where that is nothing.
bool LocalFallback::make_change(Request& request, const Decision& told) const {
  switch (request.operation) {
    case Operation::kTake:
      if (!told.allowed || request.cost == 0) return false;
      break;
    case Operation::kTakeUpTo:
      if (told.taken == 0) return false;
      request.operation = Operation::kTake;
      request.cost = told.taken;
      break;
    case Operation::kRenew:
      // Not held any more, whatever is known of it here.
      if (!told.allowed) request.operation = Operation::kRelease;
      break;
    case Operation::kRelease:
      break;
    case Operation::kCharge:
    case Operation::kRefund:
    case Operation::kBlock:
    case Operation::kReset:
      if (!told.allowed) return false;
      break;
  }
  request.cost = scaled_cost(request);
  return true;
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
