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

namespace sluice {
namespace {

constexpr std::size_t kUnsettled = 4096;

// How many permits there are. REQUIRES: it is a limit of permits.
std::int64_t& permits_of(LimitDefinition& limit) {
  return std::get<Part<Concurrency>>(limit.parts[0]).params.limit;
}

Decision ask(Store& store, const Request& request, Instant now) {
  Decision decision;
  store.decide({&request, 1}, now, {&decision, 1});
  return decision;
}

// The units that the store may charge for a request, but for what lends.
std::int64_t charged_units(const Request& request) {
  const bool charges =
      takes(request.operation, request.cost) || request.operation == Operation::kCharge;
  return charges ? std::min(request.cost, kMaxCount) : 0;
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
      unsettled_(std::make_unique<Unsettled[]>(kUnsettled)),
      store_({.max_bytes = max_bytes, .table = {}}) {
  assert(shares_ >= 1);
}

LocalFallback::Unsettled& LocalFallback::unsettled(const Space& space, const KeyHash& key) const {
  const auto which = reinterpret_cast<std::uintptr_t>(&space) / alignof(std::max_align_t);
  return unsettled_[(key.low ^ which) % kUnsettled];
}

void LocalFallback::expect(const KeyHash& key, const Space& space, const Request& request) {
  const memory::Place place = store_.place_of(space, key);
  place.shard->prefetch(place.tag);
  unsettled(space, key).fetch_add(charged_units(request), std::memory_order_relaxed);
}

void LocalFallback::forget(const KeyHash& key, const Request& request) {
  unsettled(*request.space, key).fetch_sub(charged_units(request), std::memory_order_relaxed);
}

void LocalFallback::mirror_one_of_group(Request request, const Decision& told, Instant sent) {
  request.parts = {};  // They are the store's.
  if (make_change(request, told)) static_cast<void>(ask(store_, request, sent));
}

void LocalFallback::mirror(const KeyHash& key, Request request, const Decision& told,
                           Instant sent) {
  request.parts = {};  // They are the store's.
  Unsettled& all_unsettled = unsettled(*request.space, key);
  const std::int64_t own = charged_units(request);
  // Read before the state: what is settled by now is in the state then.
  const std::int64_t unsettled_by_others = all_unsettled.load(std::memory_order_acquire) - own;
  const bool tells = tells_remaining(request, told);
  const bool changes = make_change(request, told);
  if (!changes) request.operation = Operation::kTake;
  if (!changes) request.cost = 0;
  if (changes || tells) {
    const memory::Place place = store_.place_of(*request.space, key);
    Decision here;
    store_.decide_at(place, request, sent, here);
    // What the store has counted beside the requests of this process was used by other processes.
    const std::int64_t excess = here.remaining - told.remaining - unsettled_by_others;
    if (tells && excess > 0) [[unlikely]] {
      request.operation = Operation::kCharge;
      request.cost = excess;
      store_.decide_at(place, request, sent, here);
    }
  }
  all_unsettled.fetch_sub(own, std::memory_order_release);
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
  const auto see = [&]<class P>(const P& part) {
    using A = typename P::Algorithm;
    const std::int64_t limit =
        A::take(part.params, typename A::State{}, {.now = 0, .cost = 0}).decision.limit;
    most = std::max(most, limit);
    if constexpr (std::is_same_v<typename A::State, BucketState>) {
      least_bucket = std::min(least_bucket, limit);
    }
  };
  for (const AnyPart& part : parts) std::visit(see, part);
  return std::min(most, least_bucket);
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
