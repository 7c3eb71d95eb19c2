#pragma once

#include <array>
#include <atomic>
#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/fork.h"
#include "core/hash_secret.h"
#include "core/limit_syntax.h"
#include "core/lock.h"
#include "stores/memory/shard.h"

namespace sluice::memory {

/// For each part of a limit, the most that a key may have used without denying a unit: what must be
/// known of the numbers of a limit to tell which keys deny. See sluice::most_used().
using MostUsed = boost::container::static_vector<std::int64_t, kMaxParts>;

/// Those of a limit. Of a duration of 52 days or more, the lowest bits are left out (1 in 2^52),
/// since with_most_used() makes no such numbers of them that an expression could say.
MostUsed most_used_of(const std::vector<AnyPart>& parts);
/// The smallest: by them a key denies until it is fresh.
MostUsed smallest_used(const std::vector<AnyPart>& parts);
/// The largest: by them no key denies that admits a unit by any numbers of its own.
MostUsed largest_used(const std::vector<AnyPart>& parts);

/// Gives an id to each set of numbers by which keys are judged that have others than their space. A
/// row takes 16 bytes, and 8 more for each further part of an `&`. Keys of one space with equal
/// numbers share a row, and the last one frees it. Thread-safe.
class NumbersTable {
 public:
  /// The least id; smaller ones are those of spaces.
  static constexpr LimitId kFirst = 32'768;
  static bool has(LimitId id) { return id >= kFirst; }

  /// Without the secret, a client cannot choose numbers that all get into one list.
  explicit NumbersTable(const HashSecret& secret) : secret_(secret) {}
  ~NumbersTable();
  NumbersTable(const NumbersTable&) = delete;
  NumbersTable& operator=(const NumbersTable&) = delete;

  /// The id of these numbers, for one more key of the space. If there are too many, they are
  /// rounded down to seven bits: by such numbers a key denies for longer. 0 if there is no room for
  /// these.
  LimitId add_key(LimitId space, const MostUsed& numbers) noexcept;
  /// One more key has the id, which another one has, too.
  void add_key(LimitId id) noexcept;
  /// A key is gone.
  void remove_key(LimitId id) noexcept;

  /// The id of these numbers of a space whose keys begin to vary, whatever number of them has it; 0
  /// if there is no room. Its row stays until free_row().
  LimitId add_row(LimitId space, const MostUsed& numbers) noexcept;
  void free_row(LimitId id) noexcept;

  // Needs no lock, while a key in a locked shard or a space has the id.
  LimitId space(LimitId id) const { return row(id).space; }
  std::int64_t most_used(LimitId id, std::size_t part) const {
    return *numbers_of(*chunk(id), id, part);
  }
  bool equals(LimitId id, const MostUsed& numbers) const;

 private:
  struct Row {
    LimitId space = 0;
    LimitId next = 0;        // The next row of its list, or 0.
    std::uint32_t keys = 0;  // Guarded by lock_. Not counted for a row of a space.
  };
  static_assert(sizeof(Row) == 8);
  // Rows of different uses do not share a chunk: so keys with ever-new numbers leave room for
  // spaces, and for numbers that are rounded.
  enum class Use : std::uint8_t { kSpaces, kKeys, kRounded };

  // Rows of limits with as many parts. They are never freed, only used again.
  static constexpr std::size_t kRowsAtOnce = 256;
  struct Chunk {
    Chunk(Use chunk_use, std::size_t part_count)
        : use(chunk_use),
          parts(part_count),
          most_used(std::make_unique<std::int64_t[]>(kRowsAtOnce * part_count)) {}

    const Use use;
    const std::size_t parts;
    std::array<Row, kRowsAtOnce> rows;
    const std::unique_ptr<std::int64_t[]> most_used;
  };
  static constexpr std::size_t kMostChunks = (UINT16_MAX + std::size_t{1} - kFirst) / kRowsAtOnce;
  // By Use. Those of keys leave a quarter of the chunks to spaces.
  static constexpr std::array<std::size_t, 3> kMostOfUse{kMostChunks, kMostChunks / 8 * 5,
                                                         kMostChunks / 8};

  Chunk* chunk(LimitId id) const {
    return chunks_[(id - kFirst) / kRowsAtOnce].load(std::memory_order_acquire);
  }
  Row& row(LimitId id) const { return chunk(id)->rows[id % kRowsAtOnce]; }
  bool is_of_space(LimitId id) const { return chunk(id)->use == Use::kSpaces; }
  static std::int64_t* numbers_of(const Chunk& chunk, LimitId id, std::size_t part) {
    return &chunk.most_used[id % kRowsAtOnce * chunk.parts + part];
  }

  // The following functions need lock_.
  LimitId& list_of(LimitId space, const MostUsed& numbers);
  LimitId& free_rows(Use use, std::size_t parts);
  bool add_chunk(Use use, std::size_t parts);
  LimitId find_row(LimitId space, const MostUsed& numbers);
  LimitId take_row(Use use, LimitId space, const MostUsed& numbers);
  void unlink_row(LimitId id);

  std::array<std::atomic<Chunk*>, kMostChunks> chunks_{};
  const HashSecret secret_;
  const std::uint64_t generation_ = fork_generation();  // Of the process that may use lock_.
  Lock lock_;
  // Guarded by lock_.
  std::size_t chunk_count_ = 0;
  std::array<std::size_t, 3> chunks_of_use_{};  // Of these, by Use.
  // By Use and the number of parts: the first free row, or 0.
  std::array<std::array<LimitId, kMaxParts + 1>, 3> free_{};
  std::array<LimitId, 4096> lists_{};  // The first row of each list; a hash chooses it.
};

}  // namespace sluice::memory
