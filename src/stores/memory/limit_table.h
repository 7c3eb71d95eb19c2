#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/fork.h"
#include "core/hash_secret.h"
#include "core/store.h"
#include "stores/memory/judge.h"
#include "stores/memory/numbers_code.h"
#include "stores/memory/shard.h"

namespace sluice::memory {

class LimitTable;

/// A space of the memory store: what tells its keys from those of other spaces in the one table.
/// It holds the limit's id, so that the id goes to no other limit.
class MemorySpace final : public Space {
 public:
  MemorySpace(std::shared_ptr<LimitTable> limits, LimitId id, const KeyHash& salt,
              const LimitDefinition& limit);
  ~MemorySpace() override;

  static const MemorySpace& of(const Request& request) {
    return static_cast<const MemorySpace&>(*request.space);
  }

  LimitId id() const { return id_; }
  /// See LimitDefinition::varies.
  bool varies() const { return numbers_.load(std::memory_order_acquire) != nullptr; }
  /// Whether most states are records.
  bool keeps_records() const { return keeps_records_; }
  /// The hash of a key together with the space.
  KeyHash salted(const KeyHash& key) const { return {key.high ^ salt_.high, key.low ^ salt_.low}; }

 private:
  friend class LimitTable;

  struct Lists {
    // The first row of each list of numbers; a hash of the numbers chooses the list.
    std::array<std::atomic<LimitId>, 512> first{};
    // The row of all further numbers, once there are as many rows as a space may have; 0 before.
    std::atomic<LimitId> beyond{0};
  };

  const std::shared_ptr<LimitTable> limits_;
  const LimitId id_;
  const bool keeps_records_;
  const KeyHash salt_;
  std::atomic<Lists*> numbers_{nullptr};  // Those of its row. Null unless the numbers vary.
};

/// Gives an id to each limit that judges a store's keys: one for each space and, if its numbers
/// vary, one for each NumbersCode that keys of the space have had: at first with fine rounding and,
/// once there are a thousand, with coarse. Where there is no room for more, keys are judged as
/// denying until they are fresh. The ids are taken while a caller holds the space or it has keys.
/// Where an allocation fails in the midst of a change, the process ends: the functions that change
/// the table are noexcept, since a server goes on after std::bad_alloc. Thread-safe.
class LimitTable : public std::enable_shared_from_this<LimitTable> {
 public:
  static constexpr std::size_t kMaxLimits = 65'535;

  /// The limits may take 4 MiB and a 32nd of `max_bytes` in addition to the keys: limits with a
  /// name all of that, other limits seven eighths, and the numbers of keys a half. So a client that
  /// sends ever-new expressions or numbers leaves room for others.
  LimitTable(std::size_t max_bytes, const HashSecret& secret);
  ~LimitTable();
  LimitTable(const LimitTable&) = delete;
  LimitTable& operator=(const LimitTable&) = delete;

  /// REQUIRES: no space has been opened.
  void set_secret(const HashSecret& secret) {
    assert(rows_ == 0);
    secret_ = secret;
  }

  struct Opened {
    std::shared_ptr<Space> space;
    /// What other threads may still judge by, each until it unlocks the shard that it has locked.
    std::unique_ptr<const std::vector<AnyPart>> retired;
  };
  /// As Store::replace_space().
  Opened open(const LimitDefinition& limit, const std::shared_ptr<Space>& held);
  /// How often open() has found no room.
  std::uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

  /// How close the limits are to what they may take.
  enum class Room : std::uint8_t { kAmple, kScarce, kShort };
  Room room() const { return room_.load(std::memory_order_relaxed); }
  /// About the most spaces there is room for.
  std::size_t most() const;

  // The following functions may be called with a shard's lock. A limit is valid while a key in a
  // locked shard has it.

  /// Whether a key of the space that has this id keeps it when it is asked by these numbers.
  bool judges(LimitId id, const MemorySpace& space, const LimitDefinition& limit) const {
    if (!space.varies()) return id == space.id();
    const Row& own = row(id);
    return own.space == space.id() && own.code == NumbersCode(limit.parts, own.code.rounding());
  }
  /// The id of the limit by which a key of the space is judged that is asked by these numbers: that
  /// of the space if they do not vary, and the strictest one if there is no room for others.
  [[gnu::noinline]] LimitId id_of(const MemorySpace& space, const LimitDefinition& limit) noexcept;
  /// One more key has the id.
  void add_key(LimitId id) { row(row(id).space).uses.fetch_add(1, std::memory_order_relaxed); }
  /// A key is gone.
  void remove_key(LimitId id) { remove_uses(row(id).space, 1); }
  /// The parts by which a key is judged; none if its space was replaced by one of another kind, so
  /// that no request finds the key.
  const std::vector<AnyPart>& parts(LimitId id) const {
    const Row& own = row(id);
    const auto& of_space = *row(own.space).parts.load(std::memory_order_acquire);
    return of_space.empty() ? of_space : *own.parts.load(std::memory_order_acquire);
  }
  /// The keys of the limit's space, and far more than any space has if a caller holds it.
  std::uint64_t uses(LimitId id) const {
    return row(row(id).space).uses.load(std::memory_order_relaxed);
  }

  /// For a snapshot: what a limit is, by which it can be made again in another table.
  struct Image {
    LimitId space = 0;  // The id of its space, or its own, if it is that.
    std::uint64_t made = 0;
    std::string name = {};  // Of the space.
    std::vector<AnyPart> parts = {};
    // Of a space whose numbers vary: the id of its strictest row, which makes them vary again where
    // it is restored. 0 otherwise.
    LimitId strictest = 0;
  };
  Image image_of(LimitId id, const std::vector<AnyPart>& parts);
  /// Makes a limit again: one of the numbers of `space`, which has been made again before, or, if
  /// that is 0, a space, whose name no other space keeps. Counts as one key's. Returns 0 if there
  /// is no room for the space.
  LimitId restore(const Image& image, LimitId space);

 private:
  friend class MemorySpace;

  using PartList = std::vector<AnyPart>;
  using Lists = MemorySpace::Lists;
  using Rounding = NumbersCode::Rounding;

  // What only the row of a space needs.
  struct SpaceData {
    std::string name;
    std::weak_ptr<MemorySpace> handle = {};
    std::uint64_t made = 0;  // The value of spaces_made_, which the space's salt is made from.
    bool was_held = false;   // Not if it has only been restored.
    // Not null once the numbers vary. A row in them stays as long as the space.
    std::unique_ptr<Lists> numbers = nullptr;
    // Then the one of them by which a key denies until it is fresh: for numbers that have no row.
    LimitId strictest = 0;
    std::size_t sets = 0;  // In `numbers`.
  };

  // What a handle adds to the uses of its space: more than it may have keys.
  static constexpr std::uint64_t kHandle = std::uint64_t{1} << 48;

  // Rows are never freed, only used again for other limits, so that they may be read at any time.
  struct Row {
    // Of a space: its keys, and kHandle for each handle. Ceases to be 0 only with mutex_ held.
    std::atomic<std::uint64_t> uses{0};
    std::atomic<const PartList*> parts{nullptr};
    LimitId space = 0;  // The row of its space; its own id, if it is that. 0: not in use.
    LimitId next = 0;   // The next row of the list of numbers or of free rows that it is in, or 0.
    // Guarded by mutex_.
    std::uint32_t bytes = 0;          // Counted in bytes_.
    std::unique_ptr<SpaceData> data;  // Null unless the row is that of a space.
    // Of numbers; of a space, that of none. Constant while the row is in use.
    NumbersCode code;
  };
  static constexpr std::size_t kRowsAtOnce = 256;
  using Chunk = std::array<Row, kRowsAtOnce>;

  Row& row(LimitId id) const {
    return (*chunks_[id / kRowsAtOnce].load(std::memory_order_acquire))[id % kRowsAtOnce];
  }

  // So many sets of numbers of a space have fine rounding.
  static constexpr std::size_t kFineSets = 1024;
  // Beside them there is the strictest one; with coarse rounding there are fewer sets of one part.
  static constexpr std::size_t kMostSets = 1 + kFineSets + 2048;

  static std::atomic<LimitId>& list_of(Lists& lists, NumbersCode code) {
    return lists.first[code.hash() >> 55];
  }
  LimitId find_code(Lists& lists, NumbersCode code) const {
    LimitId id = list_of(lists, code).load(std::memory_order_acquire);
    while (id != 0 && row(id).code != code) id = row(id).next;
    return id;
  }
  // The row of these numbers of a space, or 0.
  LimitId find_numbers(Lists& lists, const PartList& parts) const {
    const LimitId id = find_code(lists, NumbersCode(parts, Rounding::kFine));
    return id != 0 ? id : find_code(lists, NumbersCode(parts, Rounding::kCoarse));
  }

  // The following functions need mutex_.
  bool has_room(std::size_t bytes, std::size_t sixteenths_kept = 0, std::size_t rows = 1) const;
  [[noreturn]] void refuse();
  LimitId add_row(const std::string& name, const PartList& parts) noexcept;
  LimitId numbers_row(LimitId space, const PartList& parts) noexcept;
  LimitId add_numbers(LimitId space, Lists& lists, const PartList& parts,
                      std::size_t bytes) noexcept;
  LimitId use_row(PartList parts, std::size_t bytes, LimitId space) noexcept;
  void free_row(LimitId id) noexcept;
  bool begin_to_vary(LimitId space, MemorySpace* handle) noexcept;
  std::shared_ptr<Space> hold(LimitId id, const LimitDefinition& limit) noexcept;
  std::unique_ptr<const PartList> retire(LimitId id) noexcept;
  void count_bytes(std::size_t bytes);

  void remove_uses(LimitId space, std::uint64_t count) {
    if (row(space).uses.fetch_sub(count, std::memory_order_acq_rel) == count) drop_unused(space);
  }
  void drop_unused(LimitId space);

  const std::size_t max_bytes_;
  std::atomic<std::uint64_t> refusals_{0};
  HashSecret secret_;
  std::atomic<Room> room_{Room::kAmple};
  std::array<std::atomic<Chunk*>, (kMaxLimits + 1) / kRowsAtOnce> chunks_{};
  const std::uint64_t generation_ = fork_generation();  // Of the process that may lock mutex_.
  std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<std::string_view, LimitId> ids_;  // Of spaces, by their names.
  LimitId free_ = 0;                                   // The first free row, or 0.
  std::size_t rows_ = 0;                               // Rows that have ever been used.
  std::size_t in_use_ = 0;                             // Rows that are used now.
  std::size_t bytes_ = 0;                              // Of these.
  std::uint64_t spaces_made_ = 0;
};

}  // namespace sluice::memory
