#include "fallback/local_fallback.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cassert>
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

// The same part, but it never denies, unless it is a bucket: of what remains, it is seen how much
// counts, although that may be more than the limit.
AnyPart without_limit(AnyPart any) {
  std::visit(
      [](auto& part) {
        if constexpr (requires { part.params.limit; }) part.params.limit = kMaxCount;
      },
      any);
  return any;
}

// The units that have been taken from a bucket, if it is full after `reset_ns`. They may be more
// than it holds: a charge, a delay and `borrow=yes` take units that are yet to return.
std::int64_t units_in_bucket(const LimitNumbers& numbers, std::int64_t reset_ns) {
  return ceil_divide(reset_ns, numbers.quota_window_ns / numbers.quota);
}

}  // namespace

LocalFallback::LocalFallback(std::size_t max_bytes, std::int64_t shares)
    : shares_(shares), store_({.max_bytes = max_bytes, .table = {}}) {
  assert(shares_ >= 1);
}

std::shared_ptr<Space> LocalFallback::open_space(const std::shared_ptr<Space>& held,
                                                 LimitDefinition limit, std::uint64_t number) {
  if (limit.is_named()) limit.space += '/' + std::to_string(number);
  return store_.replace_space(held, limit);
}

bool LocalFallback::mirrors(const Request& request) const {
  return shares_ > 1 || lends(*request.limit) || request.operation == Operation::kBlock ||
         request.operation == Operation::kReset;
}

void LocalFallback::mirror(const KeyHash& key, Request request, const Decision& told, Instant at) {
  // Not held any more, whatever is known of it here.
  if (request.operation == Operation::kRenew && !told.allowed) {
    request.operation = Operation::kRelease;
  }
  if (!told.allowed && request.operation != Operation::kRelease) return;
  request.parts = {};  // They are the store's.
  const memory::Place place = place_of(key, request);
  Decision here;
  if (lends(*request.limit)) {
    // What the store has granted is held, however many are held here.
    LimitDefinition most = *request.limit;
    permits_of(most) = Concurrency::kMaxLimit;
    request.limit = &most;
    store_.table().decide_at(place, request, at, here);
    if (request.operation != Operation::kRenew || here.allowed) return;
    request.operation = Operation::kTake;
    request.cost = 1;
    return store_.table().decide_at(place, request, at, here);
  }
  // As a take, to which a bucket with borrow=yes lends what exceeds the share.
  if (request.operation == Operation::kTakeUpTo) {
    request.operation = Operation::kTake;
    request.cost = told.taken;
  }
  request.cost = scaled_cost(request);
  store_.table().decide_at(place, request, at, here);
  if (here.allowed || request.operation != Operation::kTake) return;
  // This process's share has fewer units left than the store has admitted: takes what is left. (Of
  // an `&`, what is left of the part that has least.)
  request.operation = Operation::kTakeUpTo;
  store_.table().decide_at(place, request, at, here);
}

void LocalFallback::set_told(const KeyHash& key, const Request& request,
                             const LastAnswers::News& told, std::int64_t pending, Instant now) {
  const std::vector<AnyPart>& parts = request.limit->parts;
  const memory::Place place = place_of(key, request);
  std::array<memory::Used, kMaxParts> now_used;
  if (std::ranges::any_of(told.parts, [](const auto& part) { return part && part->is_open; })) {
    store_.table().unblock(place);
  }
  Instant fresh_at = 0;  // By then nothing is denied any more, as far as it is told.
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& part = told.parts[i];
    fresh_at = std::max(fresh_at, part ? part->reset_at : kMaxInt64);
    if (!part) continue;
    // Also what counts beyond the limit: units that were charged.
    const std::int64_t counts = counting(place, without_limit(parts[i]), i, part->at);
    now_used[i] = used(parts[i], *part, counts, pending);
  }
  store_.table().set_used(place, request, std::span(now_used).first(parts.size()));
  LastAnswers::Denied denied = told.denied;
  denied.until = std::min({denied.until, fresh_at, now + kMaxDurationNs});
  if (denied.until <= now || !admits_just_before(place, request, denied)) return;
  Request block = request;
  block.operation = Operation::kBlock;
  block.duration_ns = denied.until - now;
  block.parts = {};
  Decision blocked;
  store_.table().decide_at(place, block, now, blocked);
}

// Whether the states of all parts would admit, just before the wait is over, what was denied: of a
// cost above a part's limit, all of that limit.
bool LocalFallback::admits_just_before(const memory::Place& place, const Request& request,
                                       const LastAnswers::Denied& denied) {
  Request again = request;
  again.cost = denied.cost;
  const std::int64_t cost = scaled_cost(again);
  const std::vector<AnyPart>& parts = request.limit->parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Call call{.now = denied.until - 1,
                    .cost = std::min(cost, numbers_of(parts[i]).quota),
                    .patience_ns = denied.patience_ns};
    if (!store_.table().peek_part(place, parts[i], i, call).allowed) return false;
  }
  return true;
}

// How many units of a part shall count, and from when. `counting` do as it is.
memory::Used LocalFallback::used(const AnyPart& part, const LastAnswers::Told& told,
                                 std::int64_t counting, std::int64_t pending) const {
  const LimitNumbers numbers = numbers_of(part);
  std::int64_t units = told.used;
  if (is_bucket(part)) {
    // The time until it is full is the same under other numbers. While the key is blocked, that is
    // not told, and nothing remains.
    const std::int64_t spent = units_in_bucket(numbers, told.reset_at - told.at);
    units = std::max(spent, units >= numbers.quota ? numbers.quota : 0);
  }
  // What does not count here any more, does not count in the store either.
  const auto scaled = [&](std::int64_t own) {
    return std::min(counting, checked_multiply(own, shares_).value_or(kMaxInt64));
  };
  const std::int64_t most_own = saturated_sum(units, pending);
  units = saturated_sum(units, scaled(pending));
  // What this process has used counts against its share. It is no more than the store knows of, and
  // what is pending.
  if (shares_ > 1) units = std::max(units, scaled(most_own));
  // A window ends when the store said, unless that is the end of a block.
  const Instant at = starts_with_first(part) && told.reset_at > told.at
                         ? std::min(told.at, told.reset_at - numbers.window_ns)
                         : told.at;
  return {.at = at, .units = std::max<std::int64_t>(0, units)};
}

// The units of a part that count at `now`, also of a blocked key, of which a decision would say
// that nothing remains.
std::int64_t LocalFallback::counting(const memory::Place& place, const AnyPart& part,
                                     std::size_t index, Instant now) {
  const Decision peek = store_.table().peek_part(place, part, index, {.now = now, .cost = 0});
  if (!is_bucket(part)) return peek.limit - peek.remaining;
  return units_in_bucket(numbers_of(part), peek.reset_after.count());
}

std::chrono::nanoseconds LocalFallback::reset_after(const KeyHash& key, const Request& request,
                                                    Instant now) {
  const memory::Place place = place_of(key, request);
  const std::vector<AnyPart>& parts = request.limit->parts;
  std::chrono::nanoseconds longest{0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Decision peek = store_.table().peek_part(place, parts[i], i, {.now = now, .cost = 0});
    longest = std::max(longest, peek.reset_after);
  }
  return longest;
}

LocalFallback::Due LocalFallback::due(const KeyHash& key, const Request& request,
                                      std::int64_t units, Instant now) {
  const memory::Place place = place_of(key, request);
  const std::vector<AnyPart>& parts = request.limit->parts;
  std::int64_t most = 0;
  std::int64_t least_bucket = kMaxInt64;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t counts = counting(place, without_limit(parts[i]), i, now);
    most = std::max(most, ceil_divide(counts, shares_));
    if (is_bucket(parts[i]) && parts.size() > 1) {
      least_bucket = std::min(least_bucket, numbers_of(parts[i]).quota);
    }
  }
  if (most == 0) return {.lost = units};
  const std::int64_t count = std::min(units, most);
  const std::int64_t charge = std::min(count, least_bucket);
  return {.charge = charge, .lost = count - charge};
}

Decision LocalFallback::answer(std::span<const Request> requests, Instant now) {
  const Request& first = requests[0];
  if (lends(*first.limit)) return answer_for_permit(first, now);
  boost::container::small_vector<Request, 1> local(requests.begin(), requests.end());
  for (Request& request : local) request.cost = scaled_cost(request);
  const bool is_group = requests.size() > 1;
  Decision decision = is_group ? store_.decide_all(local, now) : store_.decide_one(local[0], now);
  if (first.operation == Operation::kTakeUpTo) round_down(first, now, decision);
  for (const Request& request : requests) {
    for (Decision& part : request.parts) part = unscaled(part, request.cost);
  }
  return unscaled(decision, requests[is_group ? decision.binding : 0].cost);
}

Decision LocalFallback::answer_for_permit(Request request, Instant now) {
  LimitDefinition share = *request.limit;
  std::int64_t& permits = permits_of(share);
  const bool has_none = permits < shares_;
  permits = std::max<std::int64_t>(1, permits / shares_);  // No algorithm knows a limit of none.
  request.limit = &share;
  Decision decision;
  if (has_none && can_be_denied(request.operation, request.cost)) {
    decision = {.retry_after = kPolicyWait};
  } else {
    decision = store_.decide_one(request, now);
    if (has_none) decision.limit = decision.remaining = 0;
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

// Refunds what was taken of a unit that is not whole.
void LocalFallback::round_down(const Request& request, Instant now, Decision& decision) {
  const std::int64_t rest = decision.taken % shares_;
  if (rest == 0) return;
  Request refund = request;
  refund.operation = Operation::kRefund;
  refund.cost = rest;
  const std::int64_t taken = decision.taken - rest;
  decision = store_.decide_one(refund, now);
  decision.taken = taken;
  if (taken > 0) return;
  decision.allowed = false;
  decision.retry_after = kPolicyWait;
}

}  // namespace sluice
