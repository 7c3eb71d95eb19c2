#include "stores/memory/records.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes)
#endif

namespace sluice::memory {
namespace {

// What a record is charged beside its own bytes.
constexpr std::size_t kOverheadBytes = 8;
constexpr std::size_t kWordBytes = sizeof(Cell);
// The most freed records among which one of the right size is looked for.
constexpr int kMostLooks = 8;

// What a freed record becomes.
struct Freed {
  std::uint32_t bytes;
  std::uint32_t next;
};

template <class T>
T* at(Records::Block& block, std::size_t offset) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(&block) + offset);
}

std::uint32_t& freed_list(Records::Block& block, std::size_t bytes) {
  return block.freed[bytes / kWordBytes % block.freed.size()];
}

// Tells the address sanitizer which bytes of a block are free. Without it, the compiler drops the
// loop.
void mark_free(Records::Block& block) {
  for (const std::uint32_t first : block.freed) {
    for (std::uint32_t offset = first; offset != 0;) {
      auto* freed = at<Freed>(block, offset * kWordBytes);
      ASAN_POISON_MEMORY_REGION(freed + 1, freed->bytes - sizeof *freed);
      offset = freed->next;
    }
  }
  ASAN_POISON_MEMORY_REGION(at<void>(block, block.end), block.bytes - block.end);
}

// Takes bytes from the end of a block that has them.
void* append(Records::Block& block, std::size_t bytes) {
  void* place = at<void>(block, block.end);
  ASAN_UNPOISON_MEMORY_REGION(place, bytes);
  block.end += bytes;
  block.live += bytes;
  return place;
}

// Calls visit(cell) for each cell in a record.
template <class Visit>
void each_inner(Record* record, Visit visit) {
  if (record->kind == RecordKind::kParts) {
    for (std::uint8_t i = 0; i < record->parts; ++i) {
      visit(static_cast<PartsRecord*>(record)->cells()[i]);
    }
  } else if (record->kind == RecordKind::kBlocked) {
    visit(static_cast<BlockedRecord*>(record)->cell);
  }
}

}  // namespace

std::size_t record_bytes(Cell cell) {
  if (!is_record(cell)) return 0;
  std::size_t bytes = record_of(cell)->bytes + kOverheadBytes;
  each_inner(record_of(cell), [&](Cell inner) { bytes += record_bytes(inner); });
  return bytes;
}

// There are at most 16,384 large records, since each is a mapping of its own: Linux allows a
// process 65,530.
std::size_t Records::least_large() const {
  constexpr std::size_t kLeast = std::size_t{16} << 10;
  return std::max(kLeast, budget_.max_bytes() / 16'384);
}

Record* Records::allocate(RecordKind kind, std::size_t bytes) {
  assert(bytes % kWordBytes == 0);
  void* place = nullptr;
  if (is_large(bytes)) {
    place = budget_.allocate_lines(bytes);
  } else if (budget_.charge(bytes + kOverheadBytes)) {
    place = find_place(bytes);
    if (place == nullptr) budget_.uncharge(bytes + kOverheadBytes);
  }
  if (place == nullptr) return nullptr;
  return new (place) Record{.bytes = static_cast<std::uint32_t>(bytes), .kind = kind, .parts = 0};
}

void* Records::find_place(std::size_t bytes) {
  if (block_ == nullptr) block_ = make_block(block_bytes(bytes));
  if (block_ == nullptr) return nullptr;
  std::uint32_t* next = &freed_list(*block_, bytes);
  for (int looks = 0; *next != 0 && looks < kMostLooks; ++looks) {
    auto* freed = at<Freed>(*block_, *next * kWordBytes);
    if (freed->bytes == bytes) {
      *next = freed->next;
      block_->live += bytes;
      ASAN_UNPOISON_MEMORY_REGION(freed, bytes);
      return freed;
    }
    next = &freed->next;
  }
  if (block_->bytes - block_->end >= bytes) return append(*block_, bytes);
  block_->wanted = std::max(block_->wanted, bytes);
  return nullptr;
}

void Records::release_one(Record* record) {
  const std::uint32_t bytes = record->bytes;
  if (is_large(bytes)) return budget_.release_lines(record, bytes);
  std::uint32_t& first = freed_list(*block_, bytes);
  auto* freed = new (record) Freed{.bytes = bytes, .next = first};
  ASAN_POISON_MEMORY_REGION(freed + 1, bytes - sizeof *freed);
  const auto offset = reinterpret_cast<char*>(freed) - reinterpret_cast<char*>(block_);
  first = static_cast<std::uint32_t>(static_cast<std::size_t>(offset) / kWordBytes);
  block_->live -= bytes;
  budget_.uncharge(bytes + kOverheadBytes);
  if (is_wasteful()) is_due_ = true;
}

void Records::release(Cell cell) {
  if (!is_record(cell)) return;
  each_inner(record_of(cell), [&](Cell inner) { release(inner); });
  release_one(record_of(cell));
}

// The bytes that a block needs for all records, for the one that had no place, or so many
// bytes. If there is no memory for it, that record is not asked for again.
std::size_t Records::needed_bytes(std::size_t bytes) {
  if (block_ == nullptr) return block_bytes(bytes);
  return block_bytes(block_->live + std::max(bytes, std::exchange(block_->wanted, 0)));
}

Records::Block* Records::make_block(std::size_t bytes) {
  void* memory = Budget::take_pages(bytes);
  if (memory == nullptr) return nullptr;
  auto* block = new (memory) Block{.bytes = bytes, .end = sizeof(Block)};
  mark_free(*block);
  return block;
}

// Adds pages to the block, if it is pages and has few freed records: the system moves pages without
// copying them.
bool Records::extend(std::size_t bytes) {
  if (block_ == nullptr || block_->bytes < Budget::kPageBytes) return false;
  const std::size_t freed = block_->end - sizeof(Block) - block_->live;
  bytes = Budget::lines_bytes(bytes + freed);
  if (freed > block_->live / (2 * kSlack) || bytes <= block_->bytes) return false;
  ASAN_UNPOISON_MEMORY_REGION(block_, block_->bytes);
  void* memory = Budget::extend_pages(block_, block_->bytes, bytes);
  if (memory != nullptr) {
    block_ = static_cast<Block*>(memory);
    block_->bytes = bytes;
  }
  mark_free(*block_);
  return memory != nullptr;
}

// Makes a cell refer to its record, which has moved with its block, and likewise the cells in that.
void Records::follow(Cell& cell, const Block* former) const {
  if (!is_record(cell)) return;
  const std::size_t offset = (cell & ~kRecordBit) - reinterpret_cast<std::uintptr_t>(former);
  if (offset < block_->end) cell = cell_of(at<Record>(*block_, offset));
  each_inner(record_of(cell), [&](Cell& inner) { follow(inner, former); });
}

void Records::free_block() {
  if (block_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(block_, block_->bytes);
  Budget::free_pages(block_, block_->bytes);
  block_ = nullptr;
}

void Records::move(Cell& cell, Block& to) const {
  if (!is_record(cell)) return;
  Record* record = record_of(cell);
  if (!is_large(record->bytes)) {
    record = static_cast<Record*>(std::memcpy(append(to, record->bytes), record, record->bytes));
    cell = cell_of(record);
  }
  each_inner(record, [&](Cell& inner) { move(inner, to); });
}

}  // namespace sluice::memory
