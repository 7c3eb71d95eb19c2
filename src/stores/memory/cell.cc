#include "stores/memory/cell.h"

#include <algorithm>
#include <cassert>
#include <memory>

namespace sluice::memory {
namespace {

// The least capacity of a record.
template <class R>
constexpr std::uint32_t kLeast = 4;
// With this many permits it is one cache line.
template <>
constexpr std::uint32_t kLeast<PermitsRecord> = 3;
// Records with this capacity or more are shrunk when they are nearly empty, after a burst.
constexpr std::uint32_t kWorthShrinking = 64;

// A ring of `capacity` slots with the entries of `old`, or null.
RingRecord* resized(Budget& budget, RingRecord* old, std::uint32_t capacity) {
  auto* record = static_cast<RingRecord*>(
      allocate_record(budget, RecordKind::kRing, ring_record_bytes(capacity)));
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
PermitsRecord* resized(Budget& budget, PermitsRecord* old, std::uint32_t capacity) {
  auto* record = static_cast<PermitsRecord*>(
      allocate_record(budget, RecordKind::kPermits, permit_record_bytes(capacity)));
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
void replace(Budget& budget, Cell& cell, Record* record) {
  release_cell(budget, cell);
  cell = cell_of(record);
}

template <class R>
bool reserve_list(Budget& budget, Cell& cell, std::uint32_t count, std::int64_t limit) {
  auto* old = list_of<R>(cell);
  if (count == 0 || (old != nullptr && count <= old->capacity)) return true;
  const std::int64_t ahead = old == nullptr ? 0 : old->capacity + old->capacity / 2;
  // Only what is charged needs more than the limit.
  const auto grown = static_cast<std::uint32_t>(count > limit ? ahead : std::min(ahead, limit));
  R* record = resized(budget, old, std::max({count, grown, kLeast<R>}));
  if (record == nullptr && grown > count) record = resized(budget, old, count);
  if (record == nullptr) return false;
  replace(budget, cell, record);
  return true;
}

template <class R>
void shrink_if_nearly_empty(Budget& budget, Cell& cell) {
  auto* old = list_of<R>(cell);
  if (old->capacity < kWorthShrinking || old->size > old->capacity / 8) return;
  R* smaller = resized(budget, old, std::max(2 * old->size, kLeast<R>));
  if (smaller != nullptr) replace(budget, cell, smaller);
}

}  // namespace

Record* allocate_record(Budget& budget, RecordKind kind, std::size_t bytes) {
  auto* record = static_cast<Record*>(budget.allocate(bytes));
  if (record != nullptr) {
    *record = {.bytes = static_cast<std::uint32_t>(bytes), .kind = kind, .parts = 0};
  }
  return record;
}

void release_cell(Budget& budget, Cell cell) {
  if (!is_record(cell)) return;
  Record* record = record_of(cell);
  if (record->kind == RecordKind::kParts) {
    for (std::uint8_t i = 0; i < record->parts; ++i) {
      release_cell(budget, static_cast<PartsRecord*>(record)->cells()[i]);
    }
  } else if (record->kind == RecordKind::kBlocked) {
    release_cell(budget, static_cast<BlockedRecord*>(record)->cell);
  }
  budget.release(record, record->bytes);
}

std::size_t record_bytes(Cell cell) {
  if (!is_record(cell)) return 0;
  Record* record = record_of(cell);
  std::size_t bytes = Budget::block_bytes(record->bytes);
  for (std::uint8_t i = 0; i < record->parts; ++i) {
    bytes += record_bytes(static_cast<PartsRecord*>(record)->cells()[i]);
  }
  if (record->kind == RecordKind::kBlocked) {
    bytes += record_bytes(static_cast<BlockedRecord*>(record)->cell);
  }
  return bytes;
}

bool reserve_ring(Budget& budget, Cell& cell, std::uint32_t count, std::int64_t limit) {
  return reserve_list<RingRecord>(budget, cell, count, limit);
}

void commit_ring(Budget& budget, Cell& cell, const RingChange& change) {
  if (change.count == 0) {
    release_cell(budget, cell);
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
  shrink_if_nearly_empty<RingRecord>(budget, cell);
}

bool reserve_permits(Budget& budget, Cell& cell, const PermitChange& change, std::int64_t limit) {
  const auto size = static_cast<std::uint32_t>(permits_in(cell).size());
  return reserve_list<PermitsRecord>(budget, cell, change.size_after(size), limit);
}

void commit_permits(Budget& budget, Cell& cell, const PermitChange& change) {
  if (!is_record(cell)) return;  // Without a record, no permit is added.
  auto* permits = static_cast<PermitsRecord*>(record_of(cell));
  permits->size =
      sluice::commit_permits({permits->entries(), permits->capacity}, permits->size, change);
  shrink_if_nearly_empty<PermitsRecord>(budget, cell);
}

}  // namespace sluice::memory
