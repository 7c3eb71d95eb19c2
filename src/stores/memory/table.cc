#include "stores/memory/table.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <mutex>
#include <type_traits>
#include <utility>

#include "algorithms/judge_parts.h"
#include "core/assign.h"
#include "core/block.h"
#include "core/key_hash.h"
#include "core/prefetch.h"
#include "core/together.h"

namespace sluice::memory {
namespace {

// Calls visit(member, the member's elements of `judged`) for each member.
template <class AnyMember, class Visit>
void each(std::span<AnyMember> members, std::span<Judged> judged, Visit visit) {
  for (auto& member : members) {
    const std::size_t count = member.request.limit->parts.size();
    visit(member, judged.first(count));
    judged = judged.subspan(count);
  }
}

// Whether a block denies the member's request.
bool is_denied_by_block(const Member& member, Instant now) {
  return can_be_denied(member.request.operation, member.request.cost) && now < member.blocked_until;
}

// Makes the decision of each part final.
void apply_blocks(std::span<const Member> members, Instant now, std::span<Judged> judged) {
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    if (now >= member.blocked_until) return;
    const bool taking = can_be_denied(member.request.operation, member.request.cost);
    for (Judged& one : own) {
      one.decision = block_decision(one.decision, taking, now, member.blocked_until);
    }
  });
}

// Combines the final decisions of all parts, and stores those that are wanted.
Decision combined(std::span<const Member> members, std::span<Judged> judged) {
  Together answer;
  Decision last;
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    Together parts;
    for (const Judged& one : own) parts.add(one.decision);
    last = parts.decision();
    answer.add(last);
    const std::span<Decision> wanted = member.request.parts;
    if (wanted.empty()) return;
    if (members.size() > 1) {
      wanted[0] = last;
    } else {
      std::ranges::transform(own, wanted.begin(), &Judged::decision);
    }
  });
  return members.size() > 1 ? answer.decision() : last;
}

}  // namespace

Table::Table(std::size_t max_bytes, const TableOptions& options)
    : options_(options),
      budget_(max_bytes),
      limits_(std::make_shared<LimitTable>(max_bytes, options.secret)),
      shards_(std::make_unique<Shard[]>(kShards)) {
  for (Shard& shard : std::span(shards_.get(), kShards)) {
    if (!shard.start(budget_)) throw StoreError("memory store: no memory for an empty table");
  }
}

Table::~Table() {
  for (Shard& shard : std::span(shards_.get(), kShards)) {
    shard.visit_all([&](const Slot& slot) { release(shard, slot); });
    shard.release(budget_);
  }
}

Place Table::place_of(const Request& request) const {
  return place_of(MemorySpace::of(request), hash_key(request.key, options_.secret));
}

Place Table::locate(const Request& request) const {
  const Place place = place_of(request);
  place.shard->prefetch(place.tag);
  return place;
}

void Table::prefetch_rest(Place place, const Request& request) const {
  constexpr std::size_t kFetched = 256;  // A ring with a dozen entries.
  const MemorySpace& space = MemorySpace::of(request);
  place.shard->prefetch_for_new(place.tag);
  // A prefetch is not worth waiting for the lock.
  if (!space.keeps_records() || !place.shard->lock.try_lock()) return;
  const std::lock_guard lock(place.shard->lock, std::adopt_lock);
  const Cell key = key_cell(place);
  if (!is_record(key)) return;
  prefetch(record_of(key), kFetched);
}

// Decides a request for one state of any kind, with any numbers: the usual case where the numbers
// vary, as with CL.THROTTLE.
template <class A>
[[gnu::flatten]] void Table::step_one(Place place, const Request& request, Instant now,
                                      Decision& decision) {
  const auto& params = std::get_if<Part<A>>(request.limit->parts.data())->params;
  Cell* cell = place.shard->find(place.tag);
  const Cell key = cell != nullptr ? *cell : 0;
  if (is_blocked(key)) [[unlikely]]
    return decide_alone(place, request, now, decision);
  const auto step = apply<A>(request.operation, params, load<A>(params, part_of(key, 0)),
                             {.now = now,
                              .cost = request.cost,
                              .patience_ns = request.patience_ns,
                              .permit = request.permit});
  const bool charges = step.decision.allowed && request.cost > 0;
  // The key denies everything by these numbers, or is about to be charged by them. So it is judged
  // by them, and not by earlier ones, when a new key needs room.
  if (cell != nullptr && (charges || (!step.decision.allowed && step.decision.remaining == 0)) &&
      MemorySpace::of(request).varies()) {
    adopt_limit(*place.shard, cell, request);
  }
  if (!charges) return assign(decision, step.decision);
  if (cell == nullptr) cell = make_cell(place, request, now, {});
  Records records = place.shard->records(budget_);
  if (cell == nullptr || !memory::reserve<A>(records, params, *cell, step.next)) [[unlikely]] {
    return decide_alone(place, request, now, decision);
  }
  memory::commit<A>(records, params, *cell, step.next);
  assign(decision, step.decision);
}

// The most common case where the numbers do not vary: both the state and the next state fit the
// key's cell. All other cases are left to tail calls, so that this function saves few registers:
// each is one more store before the lock can be released. REQUIRES: the numbers do not vary.
template <class A>
[[gnu::flatten]] void Table::take_one(Place place, const Request& request, Instant now,
                                      Decision& decision) {
  const auto& params = std::get_if<Part<A>>(request.limit->parts.data())->params;
  Cell* cell = place.shard->find(place.tag);
  if (cell == nullptr || is_record(*cell)) [[unlikely]] {
    return step_one<A>(place, request, now, decision);
  }
  const auto step = A::take(params, load<A>(params, *cell),
                            {.now = now, .cost = request.cost, .patience_ns = request.patience_ns});
  if (!step.decision.allowed || request.cost == 0) return assign(decision, step.decision);
  const auto packed = pack<A>(params, step.next);
  if (!packed) [[unlikely]]
    return step_one<A>(place, request, now, decision);
  assign(decision, step.decision);
  *cell = *packed;
}

void Table::decide(Place place, const Request& request, Instant now, Decision& decision) {
  look_after(*place.shard, now);
  const auto& parts = request.limit->parts;
  if (parts.size() > 1 || request.operation != Operation::kTake || !request.parts.empty())
      [[unlikely]] {
    return decide_other(place, request, now, decision);
  }
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (!kIsRing<A> && !kIsPermits<A>) {
          if (!MemorySpace::of(request).varies()) return take_one<A>(place, request, now, decision);
        }
        step_one<A>(place, request, now, decision);
      },
      parts[0]);
}

[[gnu::flatten]] void Table::decide_one(const Request& request, Instant now, const Clock& clock,
                                        Decision& decision) {
  // The order matters for speed: hash, prefetch, and only then read the clock and the line.
  const Place place = locate(request);
  // These cache misses at once, not one after the other.
  if (MemorySpace::of(request).varies()) place.shard->prefetch_for_new(place.tag);
  // A release need not know the exact time. With the time of the last tick, its decision may only
  // be a few milliseconds old: `allowed` for a permit that has expired since.
  if (now == kStoreTime) [[unlikely]] {
    now = request.operation == Operation::kRelease ? clock.now_cheaply() : clock.now();
  }
  const std::lock_guard lock(place.shard->lock);
  decide(place, request, now, decision);
}

// Renewals and releases of permits are frequent, too, and `concurrency` is never part of an `&`.
void Table::decide_other(Place place, const Request& request, Instant now, Decision& decision) {
  const Operation operation = request.operation;
  const bool is_common = operation == Operation::kRenew || operation == Operation::kRelease;
  if (!is_common || !request.parts.empty()) {
    return decide_alone(place, request, now, decision);
  }
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (LendingAlgorithm<A>) {
          step_one<A>(place, request, now, decision);
        } else {
          decide_alone(place, request, now, decision);
        }
      },
      request.limit->parts[0]);
}

void Table::decide_alone(Place place, const Request& request, Instant now, Decision& decision) {
  Member member{.place = place, .request = request};
  std::array<Judged, kMaxParts> room;
  const auto judged = std::span(room).first(request.limit->parts.size());
  switch (request.operation) {
    case Operation::kTakeUpTo:
      decision = decide_up_to(member, now, judged);
      return;
    case Operation::kReset:
      if (const Cell* cell = place.shard->find(place.tag)) {
        erase(*place.shard, {place.tag, *cell, place.shard->limit_of(cell)});
      }
      member.request.operation = Operation::kTake;
      member.request.cost = 0;
      break;
    case Operation::kBlock:
      member.request.cost = 1;  // Not a peek, so that it is committed.
      break;
    default:
      break;
  }
  decision = decide_together(std::span(&member, 1), now, judged);
}

void Table::set_used(Place place, const Request& request, std::span<const Used> parts) {
  const Parts limit = request.limit->parts;
  std::array<Judged, kMaxParts> room;
  const auto judged = std::span(room).first(limit.size());
  assert(parts.size() == limit.size());
  const auto change = [&](Operation operation, auto units_of) {
    const Cell key = key_cell(place);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      judged[i] = judge(limit[i], part_of(key, i), operation,
                        {.now = parts[i].at, .cost = units_of(parts[i])});
    }
    Request changes = request;
    changes.operation = operation;
    const Instant now = std::ranges::max(parts, {}, &Used::at).at;
    // The key is as if never seen until it is charged, and must not give way to itself.
    const std::array pinned{place.tag};
    if (reserve(place, changes, now, judged, pinned)) commit(place, changes, now, judged);
  };
  change(Operation::kRefund,
         [](const Used& used) { return used.units == Used::kAsBefore ? 0 : kMaxInt64; });
  if (std::ranges::all_of(parts, [](const Used& used) { return used.units <= 0; })) return;
  change(Operation::kCharge,
         [](const Used& used) { return std::max<std::int64_t>(0, used.units); });
}

Instant Table::unblock(Place place) {
  Records records = place.shard->records(budget_);
  Cell* const cell = place.shard->find(place.tag);
  if (cell == nullptr) return 0;
  const Instant until = blocked_until(*cell);
  end_block(records, *cell, kLastBlock);
  return until;
}

Cell Table::key_cell(Place place) const {
  const Cell* cell = place.shard->find(place.tag);
  return cell != nullptr ? *cell : 0;
}

bool Table::reserve(Place place, const Request& request, Instant now,
                    std::span<const Judged> judged, std::span<const Tag> pinned) {
  Cell* cell = place.shard->find(place.tag);
  const bool has_no_state = cell == nullptr || *cell == 0;
  if (has_no_state && request.operation == Operation::kRefund) return true;
  if (cell == nullptr) cell = make_cell(place, request, now, pinned);
  if (cell == nullptr) return false;
  Records records = place.shard->records(budget_);
  // Makes room for bytes() more bytes until reserves() finds enough.
  const auto reserve_one = [&](auto reserves, auto bytes) {
    for (std::size_t tries = 0; !reserves(); ++tries) {
      const bool has_made_room = tries < kMostTries && make_room(place, bytes(), now, pinned);
      cell = place.shard->find(place.tag);  // It may have moved.
      if (!has_made_room) return false;
    }
    return true;
  };
  bool has_room = true;
  if (request.operation == Operation::kBlock) {
    has_room = reserve_one([&] { return reserve_block(records, *cell); },
                           [] { return sizeof(BlockedRecord); });
  } else {
    const Parts parts = request.limit->parts;
    for (std::size_t i = 0; has_room && i < judged.size(); ++i) {
      const AnyChange& change = judged[i].change;
      has_room = reserve_one([&] { return reserve_part(records, parts, i, *cell, change); },
                             [&] { return record_bytes_for(change, *cell, i, judged.size()); });
    }
  }
  // Room that was made for some parts is of no use: the key stays as if never seen.
  if (!has_room && has_no_state) {
    erase(*place.shard, {place.tag, *cell, place.shard->limit_of(cell)});
  }
  return has_room;
}

Instant Table::commit(Place place, const Request& request, Instant now,
                      std::span<const Judged> judged) {
  Cell* cell = place.shard->find(place.tag);
  const bool has_no_state = cell == nullptr || *cell == 0;
  if (has_no_state && request.operation == Operation::kRefund) return 0;
  if (request.operation == Operation::kBlock) {
    block_key(*cell, block_until(blocked_until(*cell), now, request.duration_ns));
    return blocked_until(*cell);
  }
  Records records = place.shard->records(budget_);
  end_block(records, *cell, now);
  for (std::size_t i = 0; i < judged.size(); ++i) {
    commit_part(records, request.limit->parts, i, *cell, judged[i].change);
  }
  if (request.operation != Operation::kRefund && MemorySpace::of(request).varies()) {
    adopt_limit(*place.shard, cell, request);
  }
  return blocked_until(*cell);
}

void Table::adopt_limit(Shard& shard, const Cell* cell, const Request& request) {
  const MemorySpace& space = MemorySpace::of(request);
  LimitId& own = shard.limit_of(cell);
  if (limits_->judges(own, space, *request.limit)) return;
  const LimitId id = limits_->id_of(space, *request.limit);
  limits_->add_key(id);
  limits_->remove_key(std::exchange(own, id));
}

// A key that denies everything by the numbers of this request is judged by them from now on.
void Table::adopt_denials(std::span<const Member> members, std::span<Judged> judged) {
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    const bool denies = std::ranges::any_of(own, [](const Judged& one) {
      return !one.decision.allowed && one.decision.remaining == 0;
    });
    if (!denies || !MemorySpace::of(member.request).varies()) return;
    const Cell* cell = member.place.shard->find(member.place.tag);
    if (cell != nullptr) adopt_limit(*member.place.shard, cell, member.request);
  });
}

void Table::release(Shard& shard, const Slot& slot) {
  shard.records(budget_).release(slot.cell);
  limits_->remove_key(slot.limit);
}

void Table::erase(Shard& shard, const Slot& slot) {
  release(shard, slot);
  shard.erase(slot.tag);
}

// Runs the transition of every part of every member.
void Table::judge_all(std::span<Member> members, Instant now, std::span<Judged> judged) const {
  each(members, judged, [&](Member& member, std::span<Judged> own) {
    const auto& request = member.request;
    const Cell key = key_cell(member.place);
    member.blocked_until = blocked_until(key);
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] =
          judge(request.limit->parts[i], part_of(key, i), request.operation, call_of(request, now));
    }
  });
}

// Replaces admissions by peeks, because nothing is charged.
void Table::retract(std::span<const Member> members, Instant now, std::span<Judged> judged) const {
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    const Cell key = key_cell(member.place);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!own[i].decision.allowed) continue;
      own[i] = judge(member.request.limit->parts[i], part_of(key, i), Operation::kTake,
                     {.now = now, .cost = 0});
    }
  });
}

// Makes room for the changes of all members. Returns null, or a member that is denied since there
// is no room for it.
const Member* Table::reserve_all(std::span<Member> members, Instant now, std::span<Judged> judged) {
  std::array<Tag, kMaxTogether> pinned{};
  std::ranges::transform(members, pinned.begin(),
                         [](const Member& member) { return member.place.tag; });
  const Member* without_room = nullptr;
  each(members, judged, [&](Member& member, std::span<Judged> own) {
    const Request& request = member.request;
    if (without_room != nullptr || request.cost == 0 ||
        reserve(member.place, request, now, own, std::span(pinned).first(members.size()))) {
      return;
    }
    counters_.without_room.fetch_add(1, std::memory_order_relaxed);
    // A key with a state keeps its limit, and what is no take is not said to be done.
    member.is_unrecorded = options_.allow_when_full && key_cell(member.place) == 0 &&
                           can_be_denied(request.operation, request.cost);
    if (!member.is_unrecorded) without_room = &member;
    for (Judged& one : own) one.decision.source = Source::kFull;
  });
  return without_room;
}

// Denies requests that all members admit, but for one of which there is no room.
Decision Table::deny_full(const Member& without_room, std::span<const Member> members, Instant now,
                          std::span<Judged> judged) {
  retract(members, now, judged);
  apply_blocks(members, now, judged);
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    if (&member != &without_room) return;
    const auto wait = room_after(member.place, now);
    for (Judged& one : own) {
      one.decision.source = Source::kFull;
      one.decision.allowed = false;
      one.decision.remaining = 0;
      one.decision.delay = std::chrono::nanoseconds(0);
      one.decision.retry_after = wait;
    }
  });
  return combined(members, judged);
}

void Table::set_secret(const HashSecret& secret) {
  options_.secret = secret;
  limits_->set_secret(secret);
}

std::size_t Table::size() {
  std::size_t keys = 0;
  for (Shard& shard : std::span(shards_.get(), kShards)) {
    const std::lock_guard lock(shard.lock);
    keys += shard.size();
  }
  return keys;
}

void Table::wait_for_readers() {
  for (Shard& shard : std::span(shards_.get(), kShards)) {
    const std::lock_guard lock(shard.lock);
  }
}

Decision Table::decide_together(std::span<Member> members, Instant now, std::span<Judged> judged) {
  judge_all(members, now, judged);
  const bool allowed =
      std::ranges::all_of(judged, [](const Judged& one) { return one.decision.allowed; }) &&
      std::ranges::none_of(members,
                           [&](const Member& member) { return is_denied_by_block(member, now); });
  if (!allowed) {
    retract(members, now, judged);
    adopt_denials(members, judged);
    apply_blocks(members, now, judged);
    return combined(members, judged);
  }
  if (const Member* without_room = reserve_all(members, now, judged)) {
    return deny_full(*without_room, members, now, judged);
  }
  each(members, judged, [&](Member& member, std::span<Judged> own) {
    if (member.request.cost > 0 && !member.is_unrecorded) {
      member.blocked_until = commit(member.place, member.request, now, own);
    }
  });
  apply_blocks(members, now, judged);
  return combined(members, judged);
}

Decision Table::decide_up_to(Member& member, Instant now, std::span<Judged> judged) {
  const std::int64_t wanted = std::exchange(member.request.cost, 0);
  judge_all({&member, 1}, now, judged);
  std::int64_t units = wanted;
  for (const auto& one : judged) units = std::min(units, one.decision.remaining);
  // If none remain, the answer is that of a request for one unit.
  member.request.cost = std::min(std::max<std::int64_t>(units, 1), wanted);
  Decision decision = decide_together({&member, 1}, now, judged);
  if (decision.allowed) decision.taken = units;
  return decision;
}

}  // namespace sluice::memory
