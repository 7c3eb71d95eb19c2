#include "stores/memory/group.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/block.h"
#include "core/together.h"

namespace sluice::memory {
namespace {

// Calls visit(member, the member's own share of `judged`) for each, until one says false.
template <class AnyMember, class Visit>
bool each(std::span<AnyMember> members, std::span<Judged> judged, Visit visit) {
  for (auto& member : members) {
    const std::size_t count = member.request.limit->parts.size();
    if (!visit(member, judged.first(count))) return false;
    judged = judged.subspan(count);
  }
  return true;
}

// Whether a block denies what the member asks.
bool barred(const Member& member, Instant now) {
  return takes(member.request.operation, member.request.cost) && now < member.blocked_until;
}

Call call_of(const Request& request, Instant now) {
  const bool up_to = request.operation == Operation::kTakeUpTo;
  return {.now = now,
          .cost = request.cost,
          .patience_ns = up_to ? kDefaultPatience : request.patience_ns,
          .unspent_only = up_to,
          .permit = request.permit};
}

// Judges every part as asked.
void judge_all(std::span<Member> members, Instant now, std::span<Judged> judged) {
  each(members, judged, [&](Member& member, std::span<Judged> own) {
    const auto& request = member.request;
    const Cell key = member.table->key_cell(member.place);
    member.blocked_until = blocked_until(key);
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] =
          judge(request.limit->parts[i], part_of(key, i), request.operation, call_of(request, now));
    }
    return true;
  });
}

// Nothing is charged, so what would have been admitted stands as a peek sees it.
void retract(std::span<const Member> members, Instant now, std::span<Judged> judged) {
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    const Cell key = member.table->key_cell(member.place);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!own[i].decision.allowed) continue;
      own[i] = judge(member.request.limit->parts[i], part_of(key, i), Operation::kTake,
                     {.now = now, .cost = 0});
    }
    return true;
  });
}

// The member for whose change there is no room, or null.
const Member* reserve_all(std::span<const Member> members, Instant now, std::span<Judged> judged) {
  std::array<Tag, kMaxTogether> pinned{};
  std::ranges::transform(members, pinned.begin(),
                         [](const Member& member) { return member.place.tag; });
  const Member* without_room = nullptr;
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    if (member.request.cost > 0 &&
        !member.table->reserve(member.place, member.request, now, own,
                               std::span(pinned).first(members.size()))) {
      without_room = &member;
    }
    return without_room == nullptr;
  });
  return without_room;
}

Decision combined(std::span<const Member> members, Instant now, std::span<Judged> judged) {
  Together answer;
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    Together parts;
    for (const auto& one : own) parts.add(one.decision);
    Decision decision = parts.decision();
    if (now < member.blocked_until) {
      const Request& request = member.request;
      decision = block_decision(decision, takes(request.operation, request.cost), now,
                                member.blocked_until);
    }
    answer.add(decision);
    return true;
  });
  return answer.decision();
}

// There is no room to record what all would have admitted.
Decision decide_full(const Member& without_room, std::span<const Member> members, Instant now,
                     std::span<Judged> judged) {
  Table& table = *without_room.table;
  table.counters().refused_full.fetch_add(1, std::memory_order_relaxed);
  // Who has a state is limited by it, whatever the option.
  const bool unseen = table.key_cell(without_room.place) == 0;
  const bool allowed = table.options().allow_when_full && unseen;
  if (!allowed) retract(members, now, judged);
  Decision decision = combined(members, now, judged);
  decision.source = Source::kFull;
  if (!allowed) {
    decision.allowed = false;
    decision.remaining = 0;
    decision.delay = std::chrono::nanoseconds(0);
    decision.retry_after = table.room_after(without_room.place, now);
  }
  return decision;
}

}  // namespace

Decision decide_together(std::span<Member> members, Instant now, std::span<Judged> judged) {
  judge_all(members, now, judged);
  const bool allowed =
      std::ranges::all_of(judged, [](const Judged& one) { return one.decision.allowed; }) &&
      std::ranges::none_of(members, [&](const Member& member) { return barred(member, now); });
  if (!allowed) {
    retract(members, now, judged);
    return combined(members, now, judged);
  }
  if (const Member* without_room = reserve_all(members, now, judged)) {
    return decide_full(*without_room, members, now, judged);
  }
  each(members, judged, [&](Member& member, std::span<Judged> own) {
    if (member.request.cost > 0) {
      member.blocked_until = member.table->commit(member.place, member.request, now, own);
    }
    return true;
  });
  return combined(members, now, judged);
}

Decision decide_up_to(Member& member, Instant now, std::span<Judged> judged) {
  const std::int64_t wanted = std::exchange(member.request.cost, 0);
  judge_all({&member, 1}, now, judged);
  std::int64_t units = wanted;
  for (const auto& one : judged) units = std::min(units, one.decision.remaining);
  // Where there are none, the answer is that to whoever wants one.
  member.request.cost = std::min(std::max<std::int64_t>(units, 1), wanted);
  Decision decision = decide_together({&member, 1}, now, judged);
  if (decision.allowed) decision.taken = units;
  return decision;
}

}  // namespace sluice::memory
