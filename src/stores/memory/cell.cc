#include "stores/memory/cell.h"

#include <algorithm>
#include <cassert>
#include <memory>

namespace sluice::memory {
namespace {

constexpr std::uint32_t kLeastEntries = 4;
// A record with this many permits is one cache line.
constexpr std::uint32_t kLeastPermits = 3;
// Records with this capacity or more are shrunk when they are nearly empty, after a burst.
constexpr std::uint32_t kWorthShrinking = 64;

// A ring of `capacity` slots with the entries of `old`, or null.
RingRecord* resized(Budget& budget, RingRecord* old, std::uint32_t capacity) {
  auto* record = static_cast<RingRecord*>(
      allocate_record(budget, RecordKind::kRing, ring_record_bytes(capacity)));
  if (record == nullptr) return nullptr;
  record->capacity = capacity;
  record->head = 0;
  record->size = 0;
  record->base = 0;
  if (old != nullptr) {
    const Ring ring = old->view();
    for (std::uint32_t i = 0; i < ring.size; ++i) record->entries()[i] = ring.at(i);
    record->size = ring.size;
    record->base = ring.base;
  }
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
  std::size_t bytes = record->bytes + Budget::kOverheadBytes;
  for (std::uint8_t i = 0; i < record->parts; ++i) {
    bytes += record_bytes(static_cast<PartsRecord*>(record)->cells()[i]);
  }
  if (record->kind == RecordKind::kBlocked) {
    bytes += record_bytes(static_cast<BlockedRecord*>(record)->cell);
  }
  return bytes;
}

bool reserve_ring(Budget& budget, Cell& cell, std::uint32_t count) {
  if (count == 0) return true;
  auto* ring = is_record(cell) ? static_cast<RingRecord*>(record_of(cell)) : nullptr;
  if (ring != nullptr && count <= ring->capacity) return true;
  const std::uint32_t grown = ring == nullptr ? 0 : ring->capacity + ring->capacity / 2;
  RingRecord* record = resized(budget, ring, std::max({count, grown, kLeastEntries}));
  if (record == nullptr && grown > count) record = resized(budget, ring, count);
  if (record == nullptr) return false;
  release_cell(budget, cell);
  cell = cell_of(record);
  return true;
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

  if (ring->capacity >= kWorthShrinking && change.count <= ring->capacity / 8) {
    if (RingRecord* smaller = resized(budget, ring, 2 * change.count)) {
      release_cell(budget, cell);
      cell = cell_of(smaller);
    }
  }
}

bool reserve_permits(Budget& budget, Cell& cell, const PermitChange& change) {
  auto* permits = is_record(cell) ? static_cast<PermitsRecord*>(record_of(cell)) : nullptr;
  const std::uint32_t count = change.size_after(permits == nullptr ? 0 : permits->size);
  if (count == 0 || (permits != nullptr && count <= permits->capacity)) return true;
  const std::uint32_t grown = permits == nullptr ? 0 : permits->capacity + permits->capacity / 2;
  PermitsRecord* record = resized(budget, permits, std::max({count, grown, kLeastPermits}));
  if (record == nullptr && grown > count) record = resized(budget, permits, count);
  if (record == nullptr) return false;
  release_cell(budget, cell);
  cell = cell_of(record);
  return true;
}

void commit_permits(Budget& budget, Cell& cell, const PermitChange& change) {
  if (!is_record(cell)) return;  // Without a record, no permit is added.
  auto* permits = static_cast<PermitsRecord*>(record_of(cell));
  permits->size =
      sluice::commit_permits({permits->entries(), permits->capacity}, permits->size, change);
  if (permits->capacity >= kWorthShrinking && permits->size <= permits->capacity / 8) {
    const std::uint32_t capacity = std::max(2 * permits->size, kLeastPermits);
    if (PermitsRecord* smaller = resized(budget, permits, capacity)) {
      release_cell(budget, cell);
      cell = cell_of(smaller);
    }
  }
}

}  // namespace sluice::memory
