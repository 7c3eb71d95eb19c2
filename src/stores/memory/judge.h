#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <variant>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "stores/memory/cell.h"

namespace sluice::memory {

/// What a judged part would write.
using AnyChange =
    std::variant<BucketState, FixedWindow::State, SlidingCounter::State, RingChange, PermitChange>;

struct Judged {
  Decision decision;
  AnyChange change;
};

/// A key's cell holds its state, or names a record with a cell for each part of an `&`, or one that
/// also remembers other numbers than its table's; around all that, one with the end of a block.
/// This is the state of part `index` in it.
Cell part_of_record(Cell key, std::size_t index);
inline Cell part_of(Cell key, std::size_t index) {
  return is_record(key) ? part_of_record(key, index) : key;
}

/// Judges one part of a key, whose state is `state`.
Judged judge(const AnyPart& part, Cell state, Operation operation, const Call& call);

/// Whether a key has to remember what it is judged by.
enum class Remember : std::uint8_t {
  kAsItIs,   ///< Whatever it remembers stays.
  kHome,     ///< These are its table's numbers: nothing to remember.
  kForeign,  ///< These are not.
};

/// The parts a key's table was made for, and those it is judged by.
/// REQUIRES: where they are foreign, there is one of them.
struct KeyParts {
  std::span<const AnyPart> home;
  std::span<const AnyPart> asked;
  Remember remember = Remember::kAsItIs;
};

/// The state of a key that remembers exactly this part, else null.
Cell* foreign_state(Cell key, const AnyPart& part);

/// Makes sure that commit_part() of this change cannot fail. False where there is no room; the key
/// behaves as before in either case.
bool reserve_part(Account& account, const KeyParts& parts, std::size_t index, Cell& key,
                  const AnyChange& change);

/// REQUIRES: reserve_part() returned true for this change.
void commit_part(Account& account, const KeyParts& parts, std::size_t index, Cell& key,
                 const AnyChange& change);

/// The bytes of the largest record that reserve_part() may want for a change of part `index`.
std::size_t record_bytes_for(const AnyChange& change, Cell key, std::size_t index);

/// When the key's block ends or has ended; 0 where it has none.
Instant blocked_until(Cell key);

/// Makes sure that block_key() cannot fail. False where there is no room; the key behaves as before
/// in either case.
bool reserve_block(Account& account, Cell& key);

/// REQUIRES: reserve_block() returned true.
void block_key(Cell key, Instant until);

/// Takes a block off that is over.
void end_block(Account& account, Cell& key, Instant now);

/// How a key stands towards a request of cost 1, for who must choose one to forget.
struct Standing {
  bool fresh = false;
  bool denies = false;
  std::chrono::nanoseconds reset_after{0};
  std::chrono::nanoseconds retry_after{0};
};

Standing standing(std::span<const AnyPart> home, Cell key, Instant now);

}  // namespace sluice::memory
