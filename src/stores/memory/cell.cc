#include "stores/memory/cell.h"

#include <algorithm>

namespace sluice::memory {
namespace {

constexpr std::uint32_t kLeastEntries = 4;

// A ring of `capacity` slots that holds what `old` does, or null.
RingRecord* resized(Account& account, RingRecord* old, std::uint32_t capacity) {
  auto* record = static_cast<RingRecord*>(
      allocate_record(account, RecordKind::kRing, ring_record_bytes(capacity)));
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

}  // namespace

Record* allocate_record(Account& account, RecordKind kind, std::size_t bytes) {
  auto* record = static_cast<Record*>(account.allocate(bytes));
  if (record != nullptr) {
    *record = {.bytes = static_cast<std::uint32_t>(bytes), .kind = kind, .parts = 0};
  }
  return record;
}

void release_cell(Account& account, Cell cell) {
  if (!is_record(cell)) return;
  Record* record = record_of(cell);
  if (record->kind == RecordKind::kParts) {
    for (std::uint8_t i = 0; i < record->parts; ++i) {
      release_cell(account, static_cast<PartsRecord*>(record)->cells()[i]);
    }
  } else if (record->kind == RecordKind::kForeign) {
    release_cell(account, static_cast<ForeignRecord*>(record)->cell);
  }
  account.release(record, record->bytes);
}

std::size_t record_bytes(Cell cell) {
  if (!is_record(cell)) return 0;
  Record* record = record_of(cell);
  std::size_t bytes = record->bytes + Account::kOverheadBytes;
  for (std::uint8_t i = 0; i < record->parts; ++i) {
    bytes += record_bytes(static_cast<PartsRecord*>(record)->cells()[i]);
  }
  if (record->kind == RecordKind::kForeign) {
    bytes += record_bytes(static_cast<ForeignRecord*>(record)->cell);
  }
  return bytes;
}

bool reserve_ring(Account& account, Cell& cell, std::uint32_t count) {
  if (count == 0) return true;
  auto* ring = is_record(cell) ? static_cast<RingRecord*>(record_of(cell)) : nullptr;
  if (ring != nullptr && count <= ring->capacity) return true;
  const std::uint32_t grown = ring == nullptr ? 0 : ring->capacity + ring->capacity / 2;
  RingRecord* record = resized(account, ring, std::max({count, grown, kLeastEntries}));
  if (record == nullptr && grown > count) record = resized(account, ring, count);
  if (record == nullptr) return false;
  release_cell(account, cell);
  cell = cell_of(record);
  return true;
}

void commit_ring(Account& account, Cell& cell, const RingChange& change) {
  if (change.count == 0) {
    release_cell(account, cell);
    cell = 0;
    return;
  }
  auto* ring = static_cast<RingRecord*>(record_of(cell));
  if (change.first > 0) {
    ring->base = ring->view().at(change.first - 1).total;
    ring->head = (ring->head + change.first) % ring->capacity;
  }
  ring->size = change.count;
  ring->entries()[(ring->head + change.count - 1) % ring->capacity] = change.newest;

  // A burst long gone leaves most of a large ring empty.
  constexpr std::uint32_t kWorthShrinking = 64;
  if (ring->capacity >= kWorthShrinking && change.count <= ring->capacity / 8) {
    if (RingRecord* smaller = resized(account, ring, 2 * change.count)) {
      release_cell(account, cell);
      cell = cell_of(smaller);
    }
  }
}

}  // namespace sluice::memory
