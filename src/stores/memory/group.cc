#include "stores/memory/group.h"

#include <algorithm>
#include <array>

#include "core/together.h"

namespace sluice::memory {
namespace {

// Calls visit(member, the member's own share of `judged`) for each, until one says false.
template <class Visit>
bool each(std::span<const Member> members, std::span<Judged> judged, Visit visit) {
  for (const auto& member : members) {
    const std::size_t count = member.request.limit->parts.size();
    if (!visit(member, judged.first(count))) return false;
    judged = judged.subspan(count);
  }
  return true;
}

// Judges every part as asked.
void judge_all(std::span<const Member> members, Instant now, std::span<Judged> judged) {
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    const auto& request = member.request;
    const Cell key = member.table->key_cell(member.place);
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] = judge(request.limit->parts[i], part_of(key, i), request.operation,
                     {now, request.cost, request.patience_ns});
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

Decision combined(std::span<const Member> members, std::span<Judged> judged) {
  Together answer;
  each(members, judged, [&](const Member&, std::span<Judged> own) {
    for (const auto& one : own) answer.add(one.decision);
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
  Decision decision = combined(members, judged);
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

Decision decide_together(std::span<const Member> members, Instant now, std::span<Judged> judged) {
  judge_all(members, now, judged);
  const bool allowed =
      std::ranges::all_of(judged, [](const Judged& one) { return one.decision.allowed; });
  if (!allowed) {
    retract(members, now, judged);
    return combined(members, judged);
  }
  if (const Member* without_room = reserve_all(members, now, judged)) {
    return decide_full(*without_room, members, now, judged);
  }
  each(members, judged, [&](const Member& member, std::span<Judged> own) {
    if (member.request.cost > 0) member.table->commit(member.place, member.request, own);
    return true;
  });
  return combined(members, judged);
}

}  // namespace sluice::memory
