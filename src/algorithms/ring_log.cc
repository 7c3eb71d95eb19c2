#include "algorithms/ring_log.h"

namespace sluice {
namespace {

// The first entry from `from` on for which the predicate holds, or ring.size. If the predicate
// holds for an entry, it must hold for all later ones.
template <class Predicate>
std::uint32_t first_entry(const Ring& ring, std::uint32_t from, Predicate holds) {
  std::uint32_t end = ring.size;
  while (from < end) {
    const std::uint32_t middle = from + (end - from) / 2;
    if (holds(ring.at(middle))) {
      end = middle;
    } else {
      from = middle + 1;
    }
  }
  return from;
}

// The part of a ring that counts at one instant.
struct Counted {
  std::uint32_t first = 0;
  std::uint64_t base = 0;  // The total before it.
  std::uint64_t total = 0;
  Instant newest_ns = 0;

  std::int64_t used() const { return static_cast<std::int64_t>(total - base); }
};

Counted counted_at(const RingLimit& params, const Ring& ring, Instant now) {
  Counted counted{.base = ring.base, .total = ring.base};
  if (ring.size == 0) return counted;
  const RingEntry& newest = ring.at(ring.size - 1);
  const Instant horizon_ns = ring_judged_at(ring, now) - params.lifetime_ns;
  // Usually the oldest entry still counts, or none does.
  if (ring.at(0).stamp_ns <= horizon_ns) {
    counted.first =
        first_entry(ring, 1, [&](const RingEntry& entry) { return entry.stamp_ns > horizon_ns; });
    counted.base = ring.at(counted.first - 1).total;
  }
  counted.total = newest.total;
  counted.newest_ns = newest.stamp_ns;
  return counted;
}

Decision answer(const RingLimit& params, std::int64_t used, Instant newest_ns, Instant now) {
  return admit({.limit = params.limit,
                .remaining = std::max<std::int64_t>(0, params.limit - used),
                .reset_ns = used > 0 ? newest_ns + params.lifetime_ns - now : 0});
}

Decision refuse(const RingLimit& params, const Ring& ring, const Counted& counted,
                const Call& call) {
  std::int64_t retry_ns = kNever.count();
  if (call.cost <= params.limit) {
    const auto enough = static_cast<std::uint64_t>(counted.used() - (params.limit - call.cost));
    const std::uint32_t last_to_go = first_entry(ring, counted.first, [&](const RingEntry& entry) {
      return entry.total - counted.base >= enough;
    });
    retry_ns = ring.at(last_to_go).stamp_ns + params.lifetime_ns - call.now;
  }
  const Decision now_there = answer(params, counted.used(), counted.newest_ns, call.now);
  return deny({.limit = params.limit,
               .remaining = now_there.remaining,
               .retry_ns = retry_ns,
               .reset_ns = now_there.reset_after.count()});
}

Step<RingChange> add(const RingLimit& params, const Ring& ring, const Counted& counted,
                     const Call& call, Instant stamp_ns) {
  // Units of one stamp share an entry, because they stop counting together.
  const std::uint32_t kept = ring.size - counted.first;
  const bool joins =
      kept > 0 && (counted.newest_ns == stamp_ns || kept >= most_entries(params.limit));
  const auto cost = static_cast<std::uint64_t>(call.cost);
  return {answer(params, counted.used() + call.cost, stamp_ns, call.now),
          {.first = counted.first,
           .count = kept + (joins ? 0 : 1),
           .newest = {stamp_ns, counted.total + cost}}};
}

}  // namespace

Step<RingChange> ring_take(const RingLimit& params, const Ring& ring, const Call& call,
                           Instant stamp_ns) {
  const Counted counted = counted_at(params, ring, call.now);
  if (call.cost == 0) return {answer(params, counted.used(), counted.newest_ns, call.now), {}};
  if (call.cost > params.limit - counted.used()) {
    return {refuse(params, ring, counted, call), {}};
  }
  return add(params, ring, counted, call, stamp_ns);
}

Step<RingChange> ring_charge(const RingLimit& params, const Ring& ring, const Call& call,
                             Instant stamp_ns) {
  const Counted counted = counted_at(params, ring, call.now);
  const std::int64_t cost = std::min(call.cost, kMaxCount - counted.used());
  if (cost == 0) {
    // Nothing is added, and the counted units stay.
    return {answer(params, counted.used(), counted.newest_ns, call.now),
            {.first = counted.first,
             .count = ring.size - counted.first,
             .newest = {counted.newest_ns, counted.total}}};
  }
  return add(params, ring, counted, {call.now, cost}, stamp_ns);
}

Step<RingChange> ring_refund(const RingLimit& params, const Ring& ring, const Call& call) {
  const Counted counted = counted_at(params, ring, call.now);
  const std::int64_t left = counted.used() - std::min(counted.used(), call.cost);
  if (left == 0) return {answer(params, 0, 0, call.now), {}};
  const auto total = counted.base + static_cast<std::uint64_t>(left);
  const std::uint32_t newest = first_entry(ring, counted.first, [&](const RingEntry& entry) {
    return entry.total - counted.base >= static_cast<std::uint64_t>(left);
  });
  const Instant stamp_ns = ring.at(newest).stamp_ns;
  return {
      answer(params, left, stamp_ns, call.now),
      {.first = counted.first, .count = newest - counted.first + 1, .newest = {stamp_ns, total}}};
}

}  // namespace sluice
