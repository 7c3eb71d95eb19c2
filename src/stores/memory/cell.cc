#include "stores/memory/cell.h"

#include <algorithm>
#include <cassert>
#include <memory>

namespace sluice::memory {
namespace {

// Records with this capacity or more are shrunk when they are nearly empty, after a burst.
constexpr std::uint32_t kWorthShrinking = 64;

// A ring of `capacity` slots with the entries of `old`, or null.
RingRecord* resized(Records& records, RingRecord* old, std::uint32_t capacity) {
  auto* record = static_cast<RingRecord*>(
      records.allocate(RecordKind::kRing, list_bytes<RingRecord>(capacity)));
  if (record == nullptr) return nullptr;
  record->capacity = capacity;
  record->head = 0;
  const Ring ring = old == nullptr ? Ring() : old->view();
  for (std::uint32_t i = 0; i < ring.size; ++i) record->entries()[i] = ring.at(i);
  record->size = ring.size;
  record->base = ring.base;
  return record;
}

// A record for `capacity` permits with those of `old`, or null.
PermitsRecord* resized(Records& records, PermitsRecord* old, std::uint32_t capacity) {
  auto* record = static_cast<PermitsRecord*>(
      records.allocate(RecordKind::kPermits, list_bytes<PermitsRecord>(capacity)));
  if (record == nullptr) return nullptr;
  record->capacity = capacity;
  record->size = old == nullptr ? 0 : old->size;
  if (old != nullptr) std::uninitialized_copy_n(old->entries(), old->size, record->entries());
  return record;
}

// The ring or the permits in a cell; null if it has none.
template <class R>
R* list_of(Cell cell) {
  return is_record(cell) ? static_cast<R*>(record_of(cell)) : nullptr;
}

// Puts another record in the place of the cell's, if it has one.
void replace(Records& records, Cell& cell, Record* record) {
  records.release(cell);
  cell = cell_of(record);
}

template <class R>
bool reserve_list(Records& records, Cell& cell, std::uint32_t count, std::int64_t limit) {
  auto* old = list_of<R>(cell);
  if (count == 0 || (old != nullptr && count <= old->capacity)) return true;
  const std::int64_t ahead = old == nullptr ? 0 : old->capacity + old->capacity / 2;
  // Only what is charged needs more than the limit.
  const auto grown = static_cast<std::uint32_t>(count > limit ? ahead : std::min(ahead, limit));
  R* record = resized(records, old, std::max({count, grown, R::kLeastEntries}));
  if (record == nullptr && grown > count && !records.lacks_place()) {
    record = resized(records, old, count);
  }
  if (record == nullptr) return false;
  replace(records, cell, record);
  return true;
}

template <class R>
void shrink_if_nearly_empty(Records& records, Cell& cell) {
  auto* old = list_of<R>(cell);
  if (old->capacity < kWorthShrinking || old->size > old->capacity / 8) return;
  R* smaller = resized(records, old, std::max(2 * old->size, R::kLeastEntries));
  if (smaller != nullptr) replace(records, cell, smaller);
}

}  // namespace

bool reserve_ring(Records& records, Cell& cell, std::uint32_t count, std::int64_t limit) {
  return reserve_list<RingRecord>(records, cell, count, limit);
}

void commit_ring(Records& records, Cell& cell, const RingChange& change) {
  if (change.count == 0) {
    records.release(cell);
    cell = 0;
    return;
  }
  auto* ring = static_cast<RingRecord*>(record_of(cell));
  assert(is_record(cell) && change.count <= ring->capacity);
  if (change.first > 0) {
    ring->base = ring->view().at(change.first - 1).total;
    ring->head = (ring->head + change.first) % ring->capacity;
  }
  ring->size = change.count;
  ring->entries()[(ring->head + change.count - 1) % ring->capacity] = change.newest;
  shrink_if_nearly_empty<RingRecord>(records, cell);
}

bool reserve_permits(Records& records, Cell& cell, std::uint32_t count, std::int64_t limit) {
  return reserve_list<PermitsRecord>(records, cell, count, limit);
}

void commit_permits(Records& records, Cell& cell, const PermitChange& change) {
  if (!is_record(cell)) return;  // Without a record, no permit is added.
  auto* permits = static_cast<PermitsRecord*>(record_of(cell));
  permits->size =
      sluice::commit_permits({permits->entries(), permits->capacity}, permits->size, change);
  shrink_if_nearly_empty<PermitsRecord>(records, cell);
}

}  // namespace sluice::memory
