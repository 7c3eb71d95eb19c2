#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "algorithms/limit_definition.h"
#include "core/permits.h"
#include "core/ring.h"
#include "stores/memory/budget.h"

namespace sluice::memory {

/// A cell is 64 bits for one state: the state itself if its algorithm packs it into 63 bits, else a
/// pointer to a record. For every algorithm, 0 is a fresh state. A cell is a plain number;
/// release_cell() must be called to free its record.
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
  std::uint32_t capacity;
  std::uint32_t head;
  std::uint32_t size;
  std::uint64_t base;

  RingEntry* entries() { return reinterpret_cast<RingEntry*>(this + 1); }
  Ring view() { return {entries(), capacity, head, size, base}; }
};

struct PermitsRecord : Record {
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

/// Null if the budget has no room.
Record* allocate_record(Budget& budget, RecordKind kind, std::size_t bytes);

/// Frees the cell's record, and the records in that.
void release_cell(Budget& budget, Cell cell);

/// The bytes of a cell's records; 0 if it has none.
std::size_t record_bytes(Cell cell);
/// The bytes of a ring's record with room for `entries`.
constexpr std::size_t ring_record_bytes(std::uint32_t entries) {
  return sizeof(RingRecord) + entries * sizeof(RingEntry);
}

/// Makes room in a ring's cell for `count` entries: 0, or at least as many as it has; and for some
/// more, but not for more than `limit`. Returns false, and changes nothing, if there is no room.
bool reserve_ring(Budget& budget, Cell& cell, std::uint32_t count, std::int64_t limit);

/// Applies a change. Shrinks a large ring that becomes nearly empty.
/// REQUIRES: reserve_ring() has made room for change.count.
void commit_ring(Budget& budget, Cell& cell, const RingChange& change);

constexpr std::size_t permit_record_bytes(std::uint32_t entries) {
  return sizeof(PermitsRecord) + entries * sizeof(PermitEntry);
}

/// The permits in a cell.
inline PermitList permits_in(Cell cell) {
  return is_record(cell) ? static_cast<PermitsRecord*>(record_of(cell))->view() : PermitList();
}

/// Makes room in a cell of permits for the permits after the change; otherwise as reserve_ring().
bool reserve_permits(Budget& budget, Cell& cell, const PermitChange& change, std::int64_t limit);

/// Applies a change. Shrinks the record if many permits become few. Room for a few stays even if
/// none is left, so that acquiring and releasing a permit again and again allocates nothing.
/// REQUIRES: reserve_permits() has made room for this change.
void commit_permits(Budget& budget, Cell& cell, const PermitChange& change);

/// The state in 63 bits, if its algorithm can pack it and it fits.
template <class A>
std::optional<Cell> pack(const typename A::Params& params, const typename A::State& state) {
  if constexpr (requires { state.pack(); }) {
    return state.pack();
  } else if constexpr (requires { A::pack(params, state); }) {
    return A::pack(params, state);
  } else {
    return std::nullopt;
  }
}

template <class A>
typename A::State load(const typename A::Params& params, Cell cell) {
  using State = typename A::State;
  if (!is_record(cell)) {
    if constexpr (requires { State::unpack(cell); }) {
      return State::unpack(cell);
    } else if constexpr (requires { A::unpack(params, cell); }) {
      return A::unpack(params, cell);
    } else {
      return State{};
    }
  }
  if constexpr (kIsRing<A>) {
    return static_cast<RingRecord*>(record_of(cell))->view();
  } else if constexpr (kIsPermits<A>) {
    return permits_in(cell);
  } else {
    State state;
    std::memcpy(static_cast<void*>(&state), record_of(cell) + 1, sizeof state);
    return state;
  }
}

/// Makes room for this change, so that commit() cannot fail. Returns false if there is no room. The
/// state does not change.
template <class A>
bool reserve(Budget& budget, const typename A::Params& params, Cell& cell,
             const typename A::Change& change) {
  if constexpr (kIsRing<A>) {
    return reserve_ring(budget, cell, change.count, params.limit);
  } else if constexpr (kIsPermits<A>) {
    return reserve_permits(budget, cell, change, params.limit);
  } else {
    if (is_record(cell) || pack<A>(params, change)) return true;
    const auto state = load<A>(params, cell);
    Record* record = allocate_record(budget, RecordKind::kState, sizeof(Record) + sizeof state);
    if (record == nullptr) return false;
    std::memcpy(record + 1, &state, sizeof state);
    cell = cell_of(record);
    return true;
  }
}

/// Applies a change. REQUIRES: reserve() returned true for it, or the next state can be packed.
template <class A>
void commit(Budget& budget, const typename A::Params& params, Cell& cell,
            const typename A::Change& change) {
  if constexpr (kIsRing<A>) {
    commit_ring(budget, cell, change);
  } else if constexpr (kIsPermits<A>) {
    commit_permits(budget, cell, change);
  } else {
    if (const auto packed = pack<A>(params, change)) {
      if (is_record(cell)) release_cell(budget, cell);
      cell = *packed;
    } else {
      assert(is_record(cell));
      std::memcpy(record_of(cell) + 1, &change, sizeof change);
    }
  }
}

}  // namespace sluice::memory
