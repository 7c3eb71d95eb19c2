// How a table makes room, and which keys it forgets for that.

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "stores/memory/table.h"

namespace sluice::memory {
namespace {

// The most lines that one request examines each time it makes room.
constexpr std::uint32_t kMostLines = 64;
// The most lines of another table that are swept when this one finds no room.
constexpr std::uint32_t kMostReclaimed = 64;
// The shortest retry_after of a caller that is denied for lack of room, and its retry_after if it
// is not known when there will be room.
constexpr std::chrono::milliseconds kLeastWait{1};
constexpr std::chrono::seconds kUnknownWait{1};

}  // namespace

Cell* Table::make_cell(Place place, Instant now, std::span<const Tag> pinned) {
  Shard& shard = *place.shard;
  if (options_.forget) {
    // Each new key sweeps one line, so that fresh keys do not accumulate.
    sweep(shard, 1, now, pinned);
    if (shard.sparse()) shard.shrink(account_);
  }
  if (shard.crowded() && !grow(shard, now)) {
    must_forget();
    if (evict(shard, place.tag, 0, now, pinned) == 0) return nullptr;
  }
  return shard.insert(place.tag);
}

bool Table::grow(Shard& shard, Instant now) {
  constexpr int kMostReclaims = 256;
  for (int reclaims = 0; !shard.grow(account_); ++reclaims) {
    if (!options_.forget || reclaims == kMostReclaims || !reclaim_elsewhere(now)) return false;
  }
  return true;
}

void Table::must_forget() const {
  if (options_.forget) return;
  throw StoreError("memory store is full: its " + std::to_string(pool_->budget.max_bytes()) +
                   " bytes are used, and nothing may be forgotten in virtual time");
}

std::size_t Table::sweep(Shard& shard, std::uint32_t lines, Instant now,
                         std::span<const Tag> pinned) {
  std::size_t freed = 0;
  bool erased = false;
  const auto forget_fresh = [&](Tag tag, Cell cell) {
    if (std::ranges::find(pinned, tag) != pinned.end()) return;
    if (!standing(home_, cell, now).fresh) return;
    freed += record_bytes(cell);
    erase(shard, tag, cell);
    erased = true;
  };
  for (std::uint32_t i = std::min(lines, shard.line_count()); i > 0; --i) {
    shard.visit_next(forget_fresh);
    while (std::exchange(erased, false)) shard.visit_again(forget_fresh);
  }
  return freed;
}

std::size_t Table::evict(Shard& shard, Tag near, std::size_t bytes, Instant now,
                         std::span<const Tag> pinned) {
  struct Candidate {
    Tag tag;
    Cell cell;
    Standing standing;
  };
  std::array<Candidate, Shard::kMostCandidates> room;
  std::size_t count = 0;
  std::size_t within_reach = 0;
  shard.visit_candidates(near, [&](Tag tag, Cell cell) {
    if (std::ranges::find(pinned, tag) != pinned.end()) return;
    const Standing one = standing(home_, cell, now);
    if (one.denies) return;
    within_reach += record_bytes(cell);
    room[count++] = {tag, cell, one};
  });
  // Forget no key if that would not make enough room.
  if (count == 0 || within_reach < bytes) return 0;
  const auto candidates = std::span(room).first(count);
  std::ranges::sort(candidates, {}, [](const Candidate& one) { return one.standing.reset_after; });
  std::size_t freed = 0;
  std::size_t forgotten = 0;
  do {
    const Candidate& one = candidates[forgotten++];
    if (!one.standing.fresh) pool_->counters.evicted.fetch_add(1, std::memory_order_relaxed);
    freed += record_bytes(one.cell);
    erase(shard, one.tag, one.cell);
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
    if (&other == &here || other.line_count() == 0 || !other.lock.try_lock()) continue;
    const std::lock_guard lock(other.lock, std::adopt_lock);
    const std::uint32_t share = std::min(lines, other.line_count());
    if (visit(other, share)) return true;
    lines -= share;
  }
  return false;
}

bool Table::make_room(Place place, std::size_t bytes, Instant now, std::span<const Tag> pinned) {
  must_forget();
  std::size_t freed = 0;
  const auto sweep_one = [&](Shard& shard, std::uint32_t lines) {
    freed += sweep(shard, lines, now, pinned);
    return freed >= bytes;
  };
  const auto evict_one = [&](Shard& shard, std::uint32_t) {
    return evict(shard, place.tag, bytes - freed, now, pinned) > 0;
  };
  // First forget fresh keys, then those nearest to fresh; first in this shard, then in others.
  Shard& here = *place.shard;
  return sweep_one(here, kMostLines) || visit_others(here, sweep_one) || reclaim_elsewhere(now) ||
         evict_one(here, 0) || visit_others(here, evict_one);
}

bool Table::reclaim_elsewhere(Instant now) {
  const std::unique_lock lock(pool_->mutex, std::try_to_lock);
  if (!lock || pool_->tables.size() < 2) return false;
  Table* other = this;
  while (other == this) other = pool_->tables[pool_->reclaim_at++ % pool_->tables.size()];
  return other->reclaim(now);
}

bool Table::reclaim(Instant now) {
  // Shrinks several shards in one call, so that the freed bytes of an idle table are enough for a
  // shard of another table to grow.
  const std::size_t before = pool_->budget.used_bytes();
  std::uint32_t lines = kMostReclaimed;
  for (std::size_t i = 0; i < kShards && lines > 0; ++i) {
    Shard& shard = shards_[room_at_.fetch_add(1, std::memory_order_relaxed) % kShards];
    if (shard.line_count() == 0 || !shard.lock.try_lock()) continue;
    const std::lock_guard lock(shard.lock, std::adopt_lock);
    const std::uint32_t share = std::min(lines, shard.line_count());
    sweep(shard, share, now, {});
    if (shard.size() < shard.line_count()) shard.shrink(account_);
    lines -= share;
  }
  return pool_->budget.used_bytes() < before;
}

std::chrono::nanoseconds Table::room_after(Place place, Instant now) const {
  auto soonest = std::chrono::nanoseconds::max();
  place.shard->visit_candidates(place.tag, [&](Tag, Cell cell) {
    soonest = std::min(soonest, standing(home_, cell, now).retry_after);
  });
  if (soonest == std::chrono::nanoseconds::max()) return kUnknownWait;
  return std::max<std::chrono::nanoseconds>(soonest, kLeastWait);
}

}  // namespace sluice::memory
