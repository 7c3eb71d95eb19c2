#include "stores/memory/table.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <mutex>
#include <type_traits>
#include <utility>

#include "algorithms/judge_parts.h"
#include "core/block.h"
#include "core/key_hash.h"
#include "core/prefetch.h"
#include "core/together.h"

namespace sluice::memory {
namespace {

// Copies a decision member by member, so that its members stay in registers. The compiler copies a
// whole decision through memory and reads it back in wider pieces, for which the processor has to
// wait.
inline void assign(Decision& to, const Decision& from) {
  to.allowed = from.allowed;
  to.source = from.source;
  to.binding = from.binding;
  to.ended = from.ended;
  to.would_deny = from.would_deny;
  to.limit = from.limit;
  to.remaining = from.remaining;
  to.retry_after = from.retry_after;
  to.reset_after = from.reset_after;
  to.delay = from.delay;
  to.taken = from.taken;
}

// Whether a part of the member has denied it, or a block.
bool is_denied(const Member& member) {
  return !std::ranges::all_of(member.judged,
                              [](const Judged& one) { return one.decision.allowed; });
}

// Combines the decisions of all parts, and stores those that are wanted.
Decision combine(std::span<const Member> members) {
  Together all;
  for (const Member& member : members) {
    const Decision own = combined(member.judged);
    std::span<Decision> wanted = member.request.parts;
    if (members.size() > 1) {
      all.add(own);
      if (wanted.empty()) continue;
      wanted[0] = own;
      wanted = wanted.subspan(1);
    }
    if (!wanted.empty()) {
      std::ranges::transform(member.judged, wanted.begin(), &Judged::decision);
    }
    if (members.size() == 1) return own;
  }
  return all.decision();
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

// What decides a request, from the fastest to the one that decides any:
//
//   take_packed      a take from one part, if the numbers do not vary, and both the state and the
//                    next one fit the key's cell
//   step_part        a take from one part, a renewal or a release: any state, any numbers
//   decide_by_parts  any operation on any number of parts, of a blocked key, or if there is no room
//
// Each leaves what it does not decide to the next by a tail call, so that take_packed() saves few
// registers: each is one more store before the lock can be released.

template <class A>
[[gnu::flatten]] void Table::step_part(Place place, const Request& request, Instant now,
                                       Decision& decision) {
  const auto& params = std::get_if<Part<A>>(request.limit->parts.data())->params;
  Cell* cell = place.shard->find(place.tag);
  const Cell key = cell != nullptr ? *cell : 0;
  if (is_blocked(key)) [[unlikely]]
    return decide_by_parts(place, request, now, decision);
  const auto step = apply<A>(request.operation, params, load<A>(params, part_of(key, 0)),
                             {.now = now,
                              .cost = request.cost,
                              .patience_ns = request.patience_ns,
                              .permit = request.permit});
  const bool denies = step.decision.remaining == 0;
  if (!step.decision.allowed || request.cost == 0) {
    if (!step.decision.allowed && denies && cell != nullptr)
      judge_key(place, cell, request, denies);
    return assign(decision, step.decision);
  }
  if (cell == nullptr) cell = make_cell(place, request, now, {});
  Records records = place.shard->records(budget_);
  if (cell == nullptr || !memory::reserve<A>(records, params, *cell, step.next)) [[unlikely]] {
    return decide_by_parts(place, request, now, decision);
  }
  judge_key(place, cell, request, denies);
  memory::commit<A>(records, params, *cell, step.next);
  assign(decision, step.decision);
}

template <class A>
[[gnu::flatten]] void Table::take_packed(Place place, const Request& request, Instant now,
                                         Decision& decision) {
  const auto& params = std::get_if<Part<A>>(request.limit->parts.data())->params;
  Cell* cell = place.shard->find(place.tag);
  if (cell == nullptr || is_record(*cell)) [[unlikely]] {
    return step_part<A>(place, request, now, decision);
  }
  const auto step = A::take(params, load<A>(params, *cell),
                            {.now = now, .cost = request.cost, .patience_ns = request.patience_ns});
  if (!step.decision.allowed || request.cost == 0) return assign(decision, step.decision);
  const auto packed = pack<A>(params, step.next);
  if (!packed) [[unlikely]]
    return step_part<A>(place, request, now, decision);
  assign(decision, step.decision);
  *cell = *packed;
}

void Table::decide(Place place, const Request& request, Instant now, Decision& decision) {
  sweep_if_due(*place.shard, now);
  const auto& parts = request.limit->parts;
  const Operation operation = request.operation;
  if (parts.size() > 1 || operation != Operation::kTake || !request.parts.empty()) [[unlikely]] {
    const bool is_of_permit = operation == Operation::kRenew || operation == Operation::kRelease;
    if (!is_of_permit || !request.parts.empty() || !lends(*request.limit)) {
      return decide_by_parts(place, request, now, decision);
    }
    return step_part<Concurrency>(place, request, now, decision);
  }
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (!kIsRing<A> && !kIsPermits<A>) {
          if (!MemorySpace::of(request).varies())
            return take_packed<A>(place, request, now, decision);
        }
        step_part<A>(place, request, now, decision);
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

// What judge_parts() calls.
auto Table::judge_of(Member& member) const {
  return [&member, key = key_cell(member.place)](std::size_t part, Operation operation,
                                                 const Call& call) {
    const Judged one =
        judge(member.request.limit->parts[part], part_of(key, part), operation, call);
    if (!one.decision.allowed && one.decision.remaining == 0) member.denies_all = true;
    return one;
  };
}

void Table::decide_by_parts(Place place, const Request& request, Instant now, Decision& decision) {
  std::array<Judged, kMaxParts> room;
  const std::size_t parts = request.limit->parts.size();
  Member member{.place = place, .request = request, .judged = std::span(room).first(parts)};
  std::int64_t& cost = member.request.cost;
  std::int64_t units = 0;
  switch (request.operation) {
    case Operation::kTakeUpTo:
      units = units_left(parts, call_of(request, now), judge_of(member));
      // If none remain, the answer is that of a request for one unit.
      cost = std::min(std::max<std::int64_t>(units, 1), cost);
      break;
    case Operation::kReset:
      if (const Cell* cell = place.shard->find(place.tag)) {
        erase(*place.shard, {place.tag, *cell, place.shard->limit_of(cell)});
      }
      member.request.operation = Operation::kTake;
      cost = 0;
      break;
    case Operation::kBlock:
      cost = 1;  // Not a peek, so that it is committed.
      break;
    default:
      break;
  }
  decision = decide_together({&member, 1}, now);
  if (decision.allowed) decision.taken = units;
}

void Table::decide_at(Place place, const Request& request, Instant now, Decision& decision) {
  const std::lock_guard lock(place.shard->lock);
  decide(place, request, now, decision);
}

void Table::set_used(Place place, const Request& request, std::span<const Used> parts) {
  assert(parts.size() == request.limit->parts.size());
  const std::lock_guard lock(place.shard->lock);
  const Instant now = std::ranges::max(parts, {}, &Used::at).at;
  std::array<Judged, kMaxParts> room;
  const auto judged = std::span(room).first(parts.size());
  const auto change = [&](Operation operation, auto units_of) {
    Member member{.place = place, .request = request, .judged = judged};
    member.request.operation = operation;
    const auto judge_part = judge_of(member);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      judged[i] = judge_part(i, operation, {.now = parts[i].at, .cost = units_of(parts[i])});
    }
    // The key is as if never seen until it is charged, and must not give way to itself.
    if (reserve(member, now, {&place.tag, 1})) commit(member, now);
  };
  change(Operation::kRefund,
         [](const Used& used) { return used.units == Used::kAsBefore ? 0 : kMaxInt64; });
  if (std::ranges::all_of(parts, [](const Used& used) { return used.units <= 0; })) return;
  change(Operation::kCharge,
         [](const Used& used) { return std::max<std::int64_t>(0, used.units); });
}

void Table::unblock(Place place) {
  const std::lock_guard lock(place.shard->lock);
  Records records = place.shard->records(budget_);
  if (Cell* const cell = place.shard->find(place.tag)) end_block(records, *cell, kLastEnd);
}

Decision Table::peek_part(Place place, const AnyPart& part, std::size_t index,
                          const Call& call) const {
  const std::lock_guard lock(place.shard->lock);
  return judge(part, part_of(key_cell(place), index), Operation::kTake, call).decision;
}

Cell Table::key_cell(Place place) const {
  const Cell* cell = place.shard->find(place.tag);
  return cell != nullptr ? *cell : 0;
}

bool Table::reserve(Member& member, Instant now, std::span<const Tag> pinned) {
  const Place place = member.place;
  const Request& request = member.request;
  Cell* cell = place.shard->find(place.tag);
  const bool has_no_state = cell == nullptr || *cell == 0;
  if (has_no_state && request.operation == Operation::kRefund) return true;
  if (cell == nullptr) cell = make_cell(place, request, now, pinned);
  if (cell == nullptr) return false;
  Records records = place.shard->records(budget_);
  // Makes room for bytes() more bytes until reserves() finds enough.
  const auto reserve_one = [&](auto reserves, auto bytes) {
    for (std::size_t tries = 0; !reserves(); ++tries) {
      member.lacking_bytes = bytes();
      const bool has_made_room =
          tries < kMostTries && make_room(place, member.lacking_bytes, now, pinned);
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
    for (std::size_t i = 0; has_room && i < parts.size(); ++i) {
      const AnyChange& change = member.judged[i].change;
      has_room = reserve_one([&] { return reserve_part(records, parts, i, *cell, change); },
                             [&] { return record_bytes_for(change, *cell, i, parts.size()); });
    }
  }
  // Room that was made for some parts is of no use: the key stays as if never seen.
  if (!has_room && has_no_state) {
    erase(*place.shard, {place.tag, *cell, place.shard->limit_of(cell)});
  }
  return has_room;
}

void Table::commit(const Member& member, Instant now) {
  const Place place = member.place;
  const Request& request = member.request;
  Cell* cell = place.shard->find(place.tag);
  const bool has_no_state = cell == nullptr || *cell == 0;
  if (has_no_state && request.operation == Operation::kRefund) return;
  if (request.operation == Operation::kBlock) {
    const Instant until = block_until(blocked_until(*cell), now, request.duration_ns);
    block_key(*cell, until);
    for (Judged& one : member.judged) {
      one.decision = block_decision(one.decision, /*is_take=*/false, now, until);
    }
    return;
  }
  Records records = place.shard->records(budget_);
  end_block(records, *cell, now);
  for (std::size_t i = 0; i < request.limit->parts.size(); ++i) {
    commit_part(records, request.limit->parts, i, *cell, member.judged[i].change);
  }
  if (request.operation == Operation::kRefund) return;
  judge_key(place, cell, request, std::ranges::any_of(member.judged, [](const Judged& one) {
              return one.decision.remaining == 0;
            }));
}

void Table::release(Shard& shard, const Slot& slot) {
  shard.records(budget_).release(slot.cell);
  limits_->remove_key(slot.limit);
}

void Table::erase(Shard& shard, const Slot& slot) {
  release(shard, slot);
  shard.erase(slot.tag);
}

void Table::judge_member(Member& member, Operation operation, const Call& call) const {
  const Instant until = blocked_until(key_cell(member.place));
  judge_parts(member.judged, operation, call,
              {.blocked_until = until, .uncounted_parts = member.request.uncounted_parts},
              judge_of(member));
}

// Nothing is charged: the members that admit it answer as to a peek.
void Table::retract(std::span<Member> members, Instant now) const {
  for (Member& member : members) {
    if (!is_denied(member)) judge_member(member, Operation::kTake, {.now = now, .cost = 0});
  }
}

// Makes room for the changes of all members. Returns null, or a member that is denied since there
// is no room for it.
Member* Table::reserve_all(std::span<Member> members, Instant now) {
  std::array<Tag, kMaxTogether> pinned{};
  std::ranges::transform(members, pinned.begin(),
                         [](const Member& member) { return member.place.tag; });
  for (Member& member : members) {
    const Request& request = member.request;
    if (request.cost == 0 || reserve(member, now, std::span(pinned).first(members.size()))) {
      continue;
    }
    counters_.without_room.fetch_add(1, std::memory_order_relaxed);
    // A key with a state keeps its limit, and what is no take is not said to be done.
    member.is_unrecorded = options_.allow_when_full && key_cell(member.place) == 0 &&
                           can_be_denied(request.operation, request.cost);
    if (!member.is_unrecorded) return &member;
    for (Judged& one : member.judged) one.decision.source = Source::kFull;
  }
  return nullptr;
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

Decision Table::decide_together(std::span<Member> members, Instant now) {
  for (Member& member : members) {
    judge_member(member, member.request.operation, call_of(member.request, now));
  }
  if (std::ranges::any_of(members, is_denied)) {
    retract(members, now);
    for (const Member& member : members) {
      if (!member.denies_all) continue;
      const Cell* cell = member.place.shard->find(member.place.tag);
      if (cell != nullptr) judge_key(member.place, cell, member.request, /*denies=*/true);
    }
  } else if (Member* without_room = reserve_all(members, now)) {
    retract(members, now);
    const auto wait = room_after(*without_room, now);
    for (Judged& one : without_room->judged) {
      one.decision = {.source = Source::kFull,
                      .limit = one.decision.limit,
                      .retry_after = wait,
                      .reset_after = one.decision.reset_after};
    }
  } else {
    for (const Member& member : members) {
      if (member.request.cost > 0 && !member.is_unrecorded) commit(member, now);
    }
  }
  return combine(members);
}

}  // namespace sluice::memory
