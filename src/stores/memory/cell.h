#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "algorithms/limit_definition.h"
#include "stores/memory/records.h"

namespace sluice::memory {

/// The bytes of a RingRecord or PermitsRecord with room for so many entries.
template <class R>
constexpr std::size_t list_bytes(std::uint32_t entries) {
  return sizeof(R) + std::max(entries, R::kLeastEntries) * sizeof(*std::declval<R>().entries());
}

/// Makes room in a ring's cell for `count` entries: 0, or at least as many as it has; and for some
/// more, but not for more than `limit`. Returns false, and changes nothing, if there is no room, or
/// if records.lacks_place().
bool reserve_ring(Records& records, Cell& cell, std::uint32_t count, std::int64_t limit);

/// Applies a change. Shrinks a large ring that becomes nearly empty.
/// REQUIRES: reserve_ring() has made room for change.count.
void commit_ring(Records& records, Cell& cell, const RingChange& change);

/// The permits in a cell.
inline PermitList permits_in(Cell cell) {
  return is_record(cell) ? static_cast<PermitsRecord*>(record_of(cell))->view() : PermitList();
}

/// As reserve_ring(), for permits.
bool reserve_permits(Records& records, Cell& cell, std::uint32_t count, std::int64_t limit);

/// Applies a change. Shrinks the record if many permits become few. Room for a few stays even if
/// none is left, so that acquiring and releasing a permit again and again allocates nothing.
/// REQUIRES: reserve_permits() has made room for the permits after it.
void commit_permits(Records& records, Cell& cell, const PermitChange& change);

/// The state in 63 bits, if its algorithm can pack it and it fits.
template <class A>
std::optional<Cell> pack(const typename A::Params& params, const typename A::State& state) {
  if constexpr (requires { A::pack(params, state); }) {
    return A::pack(params, state);
  } else {
    return std::nullopt;
  }
}

template <class A>
typename A::State load(const typename A::Params& params, Cell cell) {
  using State = typename A::State;
  if (!is_record(cell)) {
    if constexpr (requires { A::unpack(params, cell); }) {
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
bool reserve(Records& records, const typename A::Params& params, Cell& cell,
             const typename A::Change& change) {
  if constexpr (kIsRing<A>) {
    return reserve_ring(records, cell, change.count, params.limit);
  } else if constexpr (kIsPermits<A>) {
    const auto size = static_cast<std::uint32_t>(permits_in(cell).size());
    return reserve_permits(records, cell, change.size_after(size), params.limit);
  } else {
    if (is_record(cell) || pack<A>(params, change)) return true;
    const auto state = load<A>(params, cell);
    Record* record = records.allocate(RecordKind::kState, sizeof(Record) + sizeof state);
    if (record == nullptr) return false;
    std::memcpy(record + 1, &state, sizeof state);
    cell = cell_of(record);
    return true;
  }
}

/// Applies a change. REQUIRES: reserve() returned true for it, or the next state can be packed.
template <class A>
void commit(Records& records, const typename A::Params& params, Cell& cell,
            const typename A::Change& change) {
  if constexpr (kIsRing<A>) {
    commit_ring(records, cell, change);
  } else if constexpr (kIsPermits<A>) {
    commit_permits(records, cell, change);
  } else {
    if (const auto packed = pack<A>(params, change)) {
      if (is_record(cell)) records.release(cell);
      cell = *packed;
    } else {
      assert(is_record(cell));
      std::memcpy(record_of(cell) + 1, &change, sizeof change);
    }
  }
}

}  // namespace sluice::memory
