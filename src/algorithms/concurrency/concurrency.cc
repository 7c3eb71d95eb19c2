#include "algorithms/concurrency/concurrency.h"

#include <algorithm>

namespace sluice {
namespace {

// How many permits have expired. They are found by halving, since a peek or a denial leaves them in
// the list.
std::uint32_t expired_at(PermitList permits, Instant now) {
  const auto held = std::ranges::upper_bound(permits, now, {}, &PermitEntry::expires_ns);
  return static_cast<std::uint32_t>(held - permits.begin());
}

// Describes the permits that are held after `change`.
Concurrency::Held held_after(const Concurrency::Params& params, PermitList permits,
                             const PermitChange& change) {
  const auto size = static_cast<std::uint32_t>(permits.size());
  Concurrency::Held held{.count = change.size_after(size)};
  // The permit at this index among those that stay.
  const auto at = [&](std::uint32_t place) -> const PermitEntry& {
    place += change.expired;
    return permits[place < change.gone ? place : place + 1];
  };
  const auto stay = static_cast<std::uint32_t>(held.count - (change.added.id == 0 ? 0 : 1));
  if (stay > 0) held.last_ns = at(stay - 1).expires_ns;
  if (change.added.id != 0) held.last_ns = std::max(held.last_ns, change.added.expires_ns);
  const std::int64_t beyond = held.count - params.limit;
  if (beyond >= 0 && beyond < stay)
    held.room_ns = at(static_cast<std::uint32_t>(beyond)).expires_ns;
  return held;
}

Step<PermitChange> step(const Concurrency::Params& params, PermitList permits,
                        const PermitChange& change, bool allowed, const Call& call) {
  return {Concurrency::answer(params, held_after(params, permits, change), allowed, call), change};
}

// The permit's index, or kNone if it is not held.
std::uint32_t place_of(PermitList permits, std::uint32_t expired, PermitId id) {
  for (auto i = static_cast<std::uint32_t>(permits.size()); i > expired;) {
    if (permits[--i].id == id) return i;
  }
  return PermitChange::kNone;
}

// Puts `added`, which may be no permit, in the place of the call's permit, if that is held.
Step<PermitChange> replace(const Concurrency::Params& params, PermitList permits, const Call& call,
                           const PermitEntry& added) {
  PermitChange change{.expired = expired_at(permits, call.now), .added = {}};
  change.gone = place_of(permits, change.expired, call.permit);
  const bool held = change.gone != PermitChange::kNone;
  if (held) change.added = added;
  Step<PermitChange> result = step(params, permits, change, held, call);
  if (!held) result.decision.retry_after = kNever;
  return result;
}

}  // namespace

Decision Concurrency::answer(const Params& params, const Held& held, bool allowed,
                             const Call& call) {
  const std::int64_t remaining = std::max<std::int64_t>(0, params.limit - held.count);
  const std::int64_t reset_ns = held.count > 0 ? held.last_ns - call.now : 0;
  if (allowed) {
    return admit({.limit = params.limit, .remaining = remaining, .reset_ns = reset_ns});
  }
  const bool waits = call.cost == 1 && held.count >= params.limit;
  return deny({.limit = params.limit,
               .remaining = remaining,
               .retry_ns = waits ? held.room_ns - call.now : kNever.count(),
               .reset_ns = reset_ns});
}

Step<PermitChange> Concurrency::take(const Params& params, const State& state, const Call& call) {
  PermitChange change{.expired = expired_at(state, call.now), .added = {}};
  const auto held = static_cast<std::int64_t>(state.size()) - change.expired;
  const bool allowed = call.cost == 0 || (call.cost == 1 && held < params.limit);
  if (allowed && call.cost == 1) change.added = {call.now + params.lease_ns, call.permit};
  return step(params, state, change, allowed, call);
}

Step<PermitChange> Concurrency::renew(const Params& params, const State& state, const Call& call) {
  return replace(params, state, call, {call.now + params.lease_ns, call.permit});
}

Step<PermitChange> Concurrency::release(const Params& params, const State& state,
                                        const Call& call) {
  return replace(params, state, call, {});
}

Concurrency::Params Concurrency::define(PartSyntax& syntax) {
  const auto lease_ns = syntax.duration_option("lease");
  syntax.finish();
  syntax.refuse_duration("a concurrency has a count and no duration (concurrency 100 lease=60s)");
  if (syntax.count() > kMaxLimit) {
    syntax.fail_count("a concurrency's limit is at most " + std::to_string(kMaxLimit) +
                      ", as each permit is kept");
  }
  return {.limit = syntax.count(), .lease_ns = lease_ns.value_or(kDefaultLeaseNs)};
}

std::string Concurrency::describe(const Params& params) {
  std::string text = std::string(kName) + ' ' + std::to_string(params.limit);
  if (params.lease_ns != kDefaultLeaseNs) text += " lease=" + format_duration(params.lease_ns);
  return text;
}

}  // namespace sluice
