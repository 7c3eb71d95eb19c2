#include "stores/memory/judge.h"

#include <algorithm>
#include <cassert>
#include <memory>

#include "core/block.h"
#include "core/limit_syntax.h"
#include "core/together.h"

namespace sluice::memory {
namespace {

PartsRecord* parts_record(Cell key) {
  if (!is_record(key) || record_of(key)->kind != RecordKind::kParts) return nullptr;
  return static_cast<PartsRecord*>(record_of(key));
}

BlockedRecord* blocked_record(Cell key) {
  return is_blocked(key) ? static_cast<BlockedRecord*>(record_of(key)) : nullptr;
}

// The key's cell without its block.
Cell& unblocked(Cell& key) {
  auto* blocked = blocked_record(key);
  return blocked != nullptr ? blocked->cell : key;
}

// The cell of a part inside the key's cell, which is not blocked.
Cell& slot_of(Cell& key, std::size_t index) {
  if (auto* parts = parts_record(key)) return parts->cells()[index];
  return key;
}

bool open_parts(Records& records, std::size_t count, Cell& key) {
  if (parts_record(key) != nullptr) return true;
  auto* record = static_cast<PartsRecord*>(
      records.allocate(RecordKind::kParts, sizeof(PartsRecord) + count * sizeof(Cell)));
  if (record == nullptr) return false;
  record->parts = static_cast<std::uint8_t>(count);
  std::uninitialized_value_construct_n(record->cells(), count);
  key = cell_of(record);
  return true;
}

}  // namespace

Cell part_of_record(Cell key, std::size_t index) {
  return slot_of(unblocked(key), index);
}

Judged judge(const AnyPart& part, Cell state, Operation operation, const Call& call) {
  return std::visit(
      [&]<class P>(const P& p) -> Judged {
        using A = typename P::Algorithm;
        const auto loaded = load<A>(p.params, state);
        const auto step = apply<A>(operation, p.params, loaded, call);
        return {step.decision, step.next};
      },
      part);
}

bool reserve_part(Records& records, Parts parts, std::size_t index, Cell& key,
                  const AnyChange& change) {
  Cell& cell = unblocked(key);
  if (parts.size() > 1 && !open_parts(records, parts.size(), cell)) return false;
  return std::visit(
      [&]<class P>(const P& p) {
        using A = typename P::Algorithm;
        return reserve<A>(records, p.params, slot_of(cell, index),
                          std::get<typename A::Change>(change));
      },
      parts[index]);
}

void commit_part(Records& records, Parts parts, std::size_t index, Cell& key,
                 const AnyChange& change) {
  std::visit(
      [&]<class P>(const P& p) {
        using A = typename P::Algorithm;
        commit<A>(records, p.params, slot_of(unblocked(key), index),
                  std::get<typename A::Change>(change));
      },
      parts[index]);
}

std::size_t record_bytes_for(const AnyChange& change, Cell key, std::size_t index,
                             std::size_t parts) {
  if (const auto* ring = std::get_if<RingChange>(&change))
    return list_bytes<RingRecord>(ring->count);
  if (const auto* permits = std::get_if<PermitChange>(&change)) {
    const auto size = static_cast<std::uint32_t>(permits_in(part_of(key, index)).size());
    return list_bytes<PermitsRecord>(permits->size_after(size));
  }
  // The cells of the parts, or a state of at most three integers.
  return sizeof(PartsRecord) + std::max<std::size_t>(parts, 3) * sizeof(Cell);
}

Instant blocked_until(Cell key) {
  const auto* blocked = blocked_record(key);
  return blocked != nullptr ? blocked->until : 0;
}

bool reserve_block(Records& records, Cell& key) {
  if (is_blocked(key)) return true;
  auto* record =
      static_cast<BlockedRecord*>(records.allocate(RecordKind::kBlocked, sizeof(BlockedRecord)));
  if (record == nullptr) return false;
  record->until = 0;
  record->cell = key;
  key = cell_of(record);
  return true;
}

void block_key(Cell key, Instant until) {
  assert(is_blocked(key));
  blocked_record(key)->until = until;
}

void end_block(Records& records, Cell& key, Instant now) {
  auto* blocked = blocked_record(key);
  if (blocked == nullptr || now < blocked->until) return;
  const Cell cell = std::exchange(blocked->cell, 0);
  records.release(std::exchange(key, cell));
}

Standing standing(Parts parts, Cell key, Instant now) {
  if (parts.empty()) return {.fresh = true};
  Together takes;
  std::chrono::nanoseconds reset_after{0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Cell state = part_of(key, i);
    const auto peek = judge(parts[i], state, Operation::kTake, {.now = now, .cost = 0}).decision;
    reset_after = std::max(reset_after, peek.reset_after);
    takes.add(judge(parts[i], state, Operation::kTake, {.now = now, .cost = 1}).decision);
  }
  Decision take = takes.decision();
  if (const Instant until = blocked_until(key); now < until) {
    take = block_decision(take, true, now, until);
    reset_after = std::max(reset_after, std::chrono::nanoseconds(until - now));
  }
  return {.fresh = reset_after.count() == 0,
          .denies = !take.allowed,
          .reset_after = reset_after,
          .retry_after = take.retry_after};
}

[[gnu::flatten]] bool is_fresh(Parts parts, Cell key, Instant now) {
  if (!parts.empty() && now < blocked_until(key)) return false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool fresh = std::visit(
        [&]<class P>(const P& p) {
          using A = typename P::Algorithm;
          const auto peek =
              A::take(p.params, load<A>(p.params, part_of(key, i)), {.now = now, .cost = 0});
          return peek.decision.reset_after.count() == 0;
        },
        parts[i]);
    if (!fresh) return false;
  }
  return true;
}

}  // namespace sluice::memory
