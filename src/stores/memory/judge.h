#pragma once

#include <boost/mp11/algorithm.hpp>
#include <chrono>
#include <cstddef>
#include <span>
#include <variant>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "stores/memory/cell.h"

namespace sluice::memory {

// Several algorithms have the same type of change.
template <class... As>
using ChangeOf = boost::mp11::mp_unique<std::variant<typename As::Change...>>;

/// The change that a part would commit: that of any algorithm.
using AnyChange = WithAlgorithms<ChangeOf>;

/// The result of a part's transition.
struct Judged {
  Decision decision;
  AnyChange change;
};

/// The parts of a limit, which judge a key together.
using Parts = std::span<const AnyPart>;

/// The state of part `index` of a key. A key's cell is its state, or points to a record with a cell
/// for each part of an `&`. If the key is blocked, its cell points to a record with the end of the
/// block, which contains such a cell.
Cell part_of_record(Cell key, std::size_t index);
inline Cell part_of(Cell key, std::size_t index) {
  return is_record(key) ? part_of_record(key, index) : key;
}

/// Runs the transition of one part of a key, whose state is `state`.
Judged judge(const AnyPart& part, Cell state, Operation operation, const Call& call);

/// Makes room for this change, so that commit_part() cannot fail. Returns false if there is no
/// room. The key behaves as before in either case.
bool reserve_part(Records& records, Parts parts, std::size_t index, Cell& key,
                  const AnyChange& change);

/// Applies a change. REQUIRES: reserve_part() returned true for it.
void commit_part(Records& records, Parts parts, std::size_t index, Cell& key,
                 const AnyChange& change);

/// About the bytes of the record that reserve_part() had no room for, with a change of part `index`
/// of so many parts.
std::size_t record_bytes_for(const AnyChange& change, Cell key, std::size_t index,
                             std::size_t parts);

/// The end of the key's block, which may be in the past; 0 if it has none.
Instant blocked_until(Cell key);

/// Makes room for a block, so that block_key() cannot fail. Returns false if there is no room. The
/// key behaves as before in either case.
bool reserve_block(Records& records, Cell& key);

/// Blocks the key. REQUIRES: reserve_block() returned true.
void block_key(Cell key, Instant until);

/// Removes the key's block if it has ended.
void end_block(Records& records, Cell& key, Instant now);

/// The state of a key towards a request of cost 1, for choosing a key to forget.
struct Standing {
  bool fresh = false;
  bool denies = false;
  std::chrono::nanoseconds reset_after{0};
  std::chrono::nanoseconds retry_after{0};
};

/// The standing under a limit with these parts. Without parts, every key is fresh.
Standing standing(Parts parts, Cell key, Instant now);

/// standing(parts, key, now).fresh
bool is_fresh(Parts parts, Cell key, Instant now);

}  // namespace sluice::memory
