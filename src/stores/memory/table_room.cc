// How a table makes room, and which keys it forgets for that.

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "stores/memory/table.h"

namespace sluice::memory {
namespace {

// The most lines that one request examines each time it makes room.
constexpr std::uint32_t kMostLines = 128;
// A key that has been fresh for less than this keeps its slot while the table may grow: it is
// likely to come back.
constexpr std::int64_t kKeptNs = kSecondNs;
// A limit with more keys is not worth forgetting those for the room that it takes.
constexpr std::uint32_t kFewUses = 16;
// The lines by which it is estimated how many keys of a shard are fresh.
constexpr std::uint32_t kSampledLines = 4;
// A shard is shrunk if most of its keys that were examined within this time had been fresh for as
// long. Only these are forgotten then: a key that is back sooner keeps its slot.
constexpr std::int64_t kSampleNs = 20 * kSecondNs;
// The shortest retry_after of a caller that is denied for lack of room, and its retry_after if it
// is not known when there will be room.
constexpr std::chrono::milliseconds kLeastWait{1};
constexpr std::chrono::seconds kUnknownWait{1};

bool is_pinned(std::span<const Tag> pinned, Tag tag) {
  return std::ranges::find(pinned, tag) != pinned.end();
}

// Keys that are fresh at this instant have been so for `kept_ns`.
Instant before(Instant now, std::int64_t kept_ns) {
  return std::max<Instant>(0, now - kept_ns);
}

}  // namespace

Cell* Table::make_cell(Place place, const Request& request, Instant now,
                       std::span<const Tag> pinned) {
  Shard& shard = *place.shard;
  const LimitId limit = LimitTable::id_of_new(MemorySpace::of(request));
  if (options_.forget) {
    // A slot of the home line whose key is not likely to come back.
    const Instant then = before(now, kKeptNs);
    Cell* cell = shard.find_in_home(place.tag, [&](const Slot& slot) {
      return is_fresh_slot(slot, then) && !is_pinned(pinned, slot.tag);
    });
    if (cell != nullptr) {
      LimitId& own = shard.limit_of(cell);
      if (own != limit) {
        limits_->add_key(limit);
        limits_->remove_key(std::exchange(own, limit));
      }
      shard.records(budget_).release(*cell);
      Shard::take_over(cell, place.tag);
      return cell;
    }
  }
  if (make_room_for_key(shard, place.tag, now, pinned)) {
    limits_->add_key(limit);
    return shard.insert(place.tag, limit);
  }
  must_forget();
  return nullptr;
}

bool Table::make_room_for_key(Shard& shard, Tag tag, Instant now, std::span<const Tag> pinned) {
  return !shard.crowded() || make_slot(shard, now, pinned) ||
         (options_.forget &&
          (evict(shard, tag, 0, now, pinned) > 0 || grow_at_others_expense(shard, now, pinned)));
}

bool Table::make_slot(Shard& shard, Instant now, std::span<const Tag> pinned) {
  if (!options_.forget) return shard.grow(budget_);
  if (!budget_.has_room_to_grow(shard.grown_bytes())) {
    sweep_fresh(shard, kSampledLines, now, pinned);
    return !shard.crowded();
  }
  // At least a quarter of the keys must go, so that the walk through all of them is worth it.
  const std::uint32_t enough = shard.size() - shard.size() / 4;
  const Instant then = before(now, kKeptNs);
  if (is_worth_sweeping(shard, then)) sweep_fresh(shard, shard.line_count(), then, pinned);
  return shard.size() < enough || shard.grow(budget_) || !shard.crowded();
}

bool Table::grow_at_others_expense(Shard& shard, Instant now, std::span<const Tag> pinned) {
  return visit_others(shard, [&](Shard& other, std::uint32_t lines) {
    const std::uint32_t before = other.size();
    sweep_fresh(other, lines, now, pinned);
    if (other.size() < before) other.shrink(budget_);
    return budget_.has_room_to_grow(shard.grown_bytes()) && shard.grow(budget_);
  });
}

bool Table::is_worth_sweeping(Shard& shard, Instant now) {
  std::uint32_t keys = 0;
  std::uint32_t fresh = 0;
  for (std::uint32_t i = std::min(kSampledLines, shard.line_count()); i > 0; --i) {
    shard.visit_next([&](const Slot& slot) {
      ++keys;
      fresh += is_fresh_slot(slot, now) ? 1 : 0;
    });
  }
  return 4 * fresh >= keys;
}

void Table::sample_and_sweep(Shard& shard, Instant now) {
  shard.clear_due();
  shard.shrink_records(budget_);
  if (!options_.forget) return;
  Shard::Sample& sample = shard.sample;
  const Instant then = before(now, kSampleNs);
  shard.visit_next([&](const Slot& slot) {
    ++sample.keys;
    sample.fresh += is_fresh_slot(slot, then) ? 1 : 0;
  });
  if (sample.since == 0) sample.since = now;
  if (now - sample.since < kSampleNs) return;
  const bool mostly_fresh = 4 * sample.fresh >= 3 * sample.keys;  // Or empty.
  sample = {.since = now};
  if (!mostly_fresh) return;
  sweep_fresh(shard, shard.line_count(), then, {});
  if (shard.sparse()) shard.shrink(budget_);
  shard.shrink_records(budget_);
}

void Table::make_room_for_limits(Instant now) {
  const LimitTable::Room room = limits_->room();
  if (!options_.forget || room == LimitTable::Room::kAmple) return;
  const auto is_useless = [&](const Slot& slot) {
    if (is_fresh_slot(slot, now)) return true;
    if (room != LimitTable::Room::kShort || limits_->uses(slot.limit) > kFewUses) return false;
    if (standing_of(slot, now).denies) return false;
    counters_.evicted.fetch_add(1, std::memory_order_relaxed);
    return true;
  };
  // Every key is seen before the limits have taken another eighth of what they may. Each call
  // examines about as many lines as any other: some sixteenths of shards.
  constexpr std::size_t kShares = 16 * kShards;
  const std::size_t calls = limits_->most() / 8;
  const std::size_t call = limits_calls_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = call * kShares / calls; i < (call + 1) * kShares / calls; ++i) {
    Shard& shard = shards_[i / 16 % kShards];
    for (std::uint32_t left = shard.line_count() / 16 + 1; left > 0;) {
      const std::uint32_t lines = std::min(left, kMostLines);
      const std::lock_guard lock(shard.lock);
      sweep(shard, lines, is_useless);
      shard.shrink_records(budget_);
      left -= lines;
    }
  }
}

void Table::must_forget() const {
  if (options_.forget) return;
  throw StoreError("memory store is full: its " + std::to_string(budget_.max_bytes()) +
                   " bytes are used, and nothing may be forgotten in virtual time");
}

template <class IsUseless>
std::size_t Table::sweep(Shard& shard, std::uint32_t lines, IsUseless is_useless) {
  std::size_t freed = 0;
  bool erased = false;
  const auto forget_useless = [&](const Slot& slot) {
    if (!is_useless(slot)) return;
    freed += record_bytes(slot.cell);
    erase(shard, slot);
    erased = true;
  };
  for (std::uint32_t i = std::min(lines, shard.line_count()); i > 0; --i) {
    shard.visit_next(forget_useless);
    while (std::exchange(erased, false)) shard.visit_again(forget_useless);
  }
  return freed;
}

std::size_t Table::sweep_fresh(Shard& shard, std::uint32_t lines, Instant now,
                               std::span<const Tag> pinned) {
  return sweep(shard, lines, [&](const Slot& slot) {
    return !is_pinned(pinned, slot.tag) && is_fresh_slot(slot, now);
  });
}

std::size_t Table::evict(Shard& shard, Tag near, std::size_t bytes, Instant now,
                         std::span<const Tag> pinned) {
  struct Candidate {
    Slot slot;
    Standing standing;
  };
  std::array<Candidate, Shard::kMostCandidates> room;
  std::size_t count = 0;
  std::size_t within_reach = 0;
  shard.visit_candidates(near, [&](const Slot& slot) {
    const std::size_t held = record_bytes(slot.cell);
    // To forget a key without a record would free no bytes.
    if (bytes > 0 && held == 0) return false;
    if (count == room.size()) return true;
    if (is_pinned(pinned, slot.tag)) return bytes == 0;
    const Standing one = standing_of(slot, now);
    if (one.denies) return bytes == 0;
    within_reach += held;
    room[count++] = {slot, one};
    return within_reach >= bytes;
  });
  // Forget no key if that would not make enough room.
  if (count == 0 || within_reach < bytes) return 0;
  const auto candidates = std::span(room).first(count);
  std::ranges::sort(candidates, {}, [](const Candidate& one) { return one.standing.reset_after; });
  std::size_t freed = 0;
  std::size_t forgotten = 0;
  do {
    const Candidate& one = candidates[forgotten++];
    if (!one.standing.fresh) counters_.evicted.fetch_add(1, std::memory_order_relaxed);
    freed += record_bytes(one.slot.cell);
    erase(shard, one.slot);
  } while (freed < bytes);
  return forgotten;
}

template <class Visit>
bool Table::visit_others(const Shard& here, Visit visit) {
  std::uint32_t lines = kMostLines;
  for (std::size_t i = 0; i < kShards && lines > 0; ++i) {
    const std::uint32_t next = room_at_.fetch_add(1, std::memory_order_relaxed);
    Shard& other = shards_[next % kShards];
    // Skip shards that are locked: waiting for a second lock could deadlock.
    if (&other == &here || !other.lock.try_lock()) continue;
    const std::lock_guard lock(other.lock, std::adopt_lock);
    const std::uint32_t share = std::min(lines, other.line_count());
    const bool done = visit(other, share);
    other.shrink_records(budget_);
    if (done) return true;
    lines -= share;
  }
  return false;
}

bool Table::make_room(Place place, std::size_t bytes, Instant now, std::span<const Tag> pinned) {
  Shard& here = *place.shard;
  const bool lacks_place = here.records(budget_).lacks_place();
  if (here.make_place(budget_)) return true;
  must_forget();
  if (lacks_place) return false;  // The system has no memory; what others free is no place here.
  std::size_t freed = 0;
  const auto sweep_one = [&](Shard& shard, std::uint32_t lines) {
    freed += sweep_fresh(shard, lines, now, pinned);
    return freed >= bytes;
  };
  const auto evict_one = [&](Shard& shard, std::uint32_t) {
    return evict(shard, place.tag, bytes - freed, now, pinned) > 0;
  };
  // First forget fresh keys, then those nearest to fresh; first in this shard, then in others.
  return sweep_one(here, kMostLines) || visit_others(here, sweep_one) || evict_one(here, 0) ||
         visit_others(here, evict_one);
}

std::size_t Table::make_room_for(Shard& shard, std::uint32_t keys, std::uint64_t usual) {
  const std::size_t share = (budget_.max_bytes() - budget_.max_bytes() / 16) / kShards;
  // A full store may have slightly more than a share on average, and those of its shards that have
  // just grown, by a fifth, more than the others.
  const bool has_room = usual * 5 / 6 <= Shard::most_keys(share);
  const std::size_t most_bytes = has_room ? budget_.max_bytes() : share;
  const std::lock_guard lock(shard.lock);
  shard.reserve(budget_, static_cast<std::uint32_t>(
                             std::min<std::size_t>(keys, Shard::most_keys(most_bytes))));
  return most_bytes;
}

Table::Restored Table::restore(Place place, LimitId limit, const KeyImage& image, Instant now,
                               std::size_t most_bytes) {
  Shard& shard = *place.shard;
  const std::lock_guard lock(shard.lock);
  if (shard.find(place.tag) != nullptr) return Restored::kTwice;
  const Parts parts = limits_->parts(limit);
  if (parts.empty()) return Restored::kFresh;
  Cell cell = 0;
  Records records = shard.records(budget_);
  for (std::size_t tries = 0; !make_key(records, parts, image, cell); ++tries) {
    if (tries == kMostTries) return Restored::kWithoutRoom;
    if (shard.make_place(budget_, image_bytes(parts, image, records.least_large()))) continue;
    if (!make_room(place, image_bytes(parts, image), now, {})) return Restored::kWithoutRoom;
  }
  const bool fresh = is_fresh(parts, cell, now);
  const auto has_room = [&] {
    if (!shard.crowded()) return true;
    if (shard.grown_bytes() <= most_bytes) return make_room_for_key(shard, place.tag, now, {});
    return evict(shard, place.tag, 0, now, {}) > 0;
  };
  if (fresh || !has_room()) {
    records.release(cell);
    return fresh ? Restored::kFresh : Restored::kWithoutRoom;
  }
  limits_->add_key(limit);
  *shard.insert(place.tag, limit) = cell;
  return Restored::kKept;
}

Standing Table::standing_of(const Slot& slot, Instant now) const {
  LimitTable::OwnParts room;
  return standing(limits_->own_parts(slot.limit, room), slot.cell, now);
}

bool Table::is_fresh_slot(const Slot& slot, Instant now) const {
  return is_fresh(limits_->parts(slot.limit), slot.cell, now);
}

std::chrono::nanoseconds Table::room_after(const Member& member, Instant now) const {
  auto soonest = std::chrono::nanoseconds::max();
  member.place.shard->visit_candidates(member.place.tag, [&](const Slot& slot) {
    if (record_bytes(slot.cell) < member.lacking_bytes) return false;
    soonest = std::min(soonest, standing_of(slot, now).retry_after);
    return true;
  });
  if (soonest == std::chrono::nanoseconds::max()) return kUnknownWait;
  return std::max<std::chrono::nanoseconds>(soonest, kLeastWait);
}

}  // namespace sluice::memory
