#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/permits.h"
#include "core/ring.h"
#include "stores/memory/budget.h"

namespace sluice::memory {

/// A cell is 64 bits for one state: the state itself if its algorithm packs it into 63 bits, else a
/// pointer to a record. For every algorithm, 0 is a fresh state. A cell is a plain number;
/// Records::release() must be called to free its record.
using Cell = std::uint64_t;

inline constexpr Cell kRecordBit = Cell{1} << 63;

enum class RecordKind : std::uint8_t {
  kState,    ///< One state of fixed size.
  kRing,     ///< Entries of a ring.
  kPermits,  ///< A list of permits.
  kParts,    ///< A cell for each part of an `&`.
  kBlocked,  ///< The cell of a key, which may be any of the above, and the end of its block.
};

struct Record {
  std::uint32_t bytes;
  RecordKind kind;
  std::uint8_t parts;
};

struct RingRecord : Record {
  static constexpr std::uint32_t kLeastEntries = 4;

  std::uint32_t capacity;
  std::uint32_t head;
  std::uint32_t size;
  std::uint64_t base;

  RingEntry* entries() { return reinterpret_cast<RingEntry*>(this + 1); }
  Ring view() { return {entries(), capacity, head, size, base}; }
};

struct PermitsRecord : Record {
  static constexpr std::uint32_t kLeastEntries = 3;  // One cache line.

  std::uint32_t capacity;
  std::uint32_t size;

  PermitEntry* entries() { return reinterpret_cast<PermitEntry*>(this + 1); }
  PermitList view() { return {entries(), size}; }
};

struct PartsRecord : Record {
  Cell* cells() { return reinterpret_cast<Cell*>(this + 1); }
};

struct BlockedRecord : Record {
  Instant until;
  Cell cell;
};

inline bool is_record(Cell cell) {
  return (cell & kRecordBit) != 0;
}
inline Record* record_of(Cell cell) {
  return reinterpret_cast<Record*>(cell & ~kRecordBit);
}
inline bool is_blocked(Cell cell) {
  return is_record(cell) && record_of(cell)->kind == RecordKind::kBlocked;
}
inline Cell cell_of(Record* record) {
  return reinterpret_cast<Cell>(record) | kRecordBit;
}

/// The bytes that a cell's records are charged; 0 if it has none. Slightly fewer if they are large.
std::size_t record_bytes(Cell cell);

/// Allocates the records of one shard, in one block of memory. No record moves until renew(), which
/// moves them all. Large records have pages of their own, and never move.
///
/// The budget is charged for records and not for the block, which is larger: by about a sixteenth,
/// so that it need not be renewed often, and by the records that have been freed, until these are
/// another sixteenth.
class Records {
 public:
  /// A block of memory for records, which begins with these figures.
  struct Block {
    std::size_t bytes = 0;   // Of the block.
    std::size_t end = 0;     // Where nothing has been allocated yet.
    std::size_t live = 0;    // The bytes of its records.
    std::size_t wanted = 0;  // By the largest record for which it had no place.
    // Lists of freed records, by their size: the offset of the first one, in words; 0 is none.
    std::array<std::uint32_t, 16> freed{};
  };

  /// For a shard with this block, null if it has none yet. Sets `is_due` if the block should be
  /// renewed since many of its records have been freed.
  Records(Budget& budget, Block*& block, bool& is_due)
      : budget_(budget), block_(block), is_due_(is_due) {}

  /// Null if the budget has no room, if the system has no memory, or if lacks_place().
  Record* allocate(RecordKind kind, std::size_t bytes);
  /// Frees the cell's record, and the records in that.
  void release(Cell cell);

  /// Whether the block had no place for a record that the budget has room for.
  bool lacks_place() const { return block_ != nullptr && block_->wanted != 0; }
  /// Records of so many bytes or more are large.
  std::size_t least_large() const;
  /// Whether a new block would be clearly smaller.
  bool is_wasteful() const {
    if (block_ == nullptr) return false;
    const std::size_t needed = block_bytes(block_->live);
    return block_->bytes > Budget::lines_bytes(needed + needed / kSlack + kLeastSlack);
  }

  /// Moves all records into a block with place for the record that had none, or so many bytes.
  /// each_cell(visit) calls visit(cell) for every cell of the shard. Returns false,
  /// and moves nothing, if the system has no memory.
  template <class EachCell>
  bool renew(std::size_t bytes, EachCell each_cell) {
    bytes = needed_bytes(bytes);
    const Block* former = block_;
    if (extend(bytes)) {
      if (block_ != former) each_cell([&](Cell& cell) { follow(cell, former); });
      return true;
    }
    Block* next = make_block(bytes);
    if (next == nullptr) return false;
    each_cell([&](Cell& cell) { move(cell, *next); });
    free_block();
    block_ = next;
    return true;
  }
  /// REQUIRES: all records have been released.
  void free_block();

 private:
  static constexpr std::size_t kSlack = 16;
  static constexpr std::size_t kLeastSlack = 256;

  // About a sixteenth more than is live: half a page less, since pages are rounded up.
  static std::size_t block_bytes(std::size_t live) {
    constexpr std::size_t kHalf = Budget::kPageBytes / 2;
    const std::size_t more = std::max(live / kSlack, kLeastSlack + kHalf) - kHalf;
    return Budget::lines_bytes(sizeof(Block) + live + more);
  }
  bool is_large(std::size_t bytes) const { return bytes >= least_large(); }
  std::size_t needed_bytes(std::size_t bytes);
  static Block* make_block(std::size_t bytes);
  bool extend(std::size_t bytes);
  void follow(Cell& cell, const Block* former) const;
  void move(Cell& cell, Block& to) const;
  void* find_place(std::size_t bytes);
  void release_one(Record* record);

  Budget& budget_;
  Block*& block_;
  bool& is_due_;
};

}  // namespace sluice::memory
