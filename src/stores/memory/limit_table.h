#pragma once

#include <array>
#include <atomic>
#include <boost/container/static_vector.hpp>
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
#include "stores/memory/numbers_table.h"
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
  bool varies() const { return largest() != 0; }
  /// Where the numbers vary, the id of a key that does not deny: see LimitTable::judge_key().
  LimitId largest() const { return largest_.load(std::memory_order_acquire); }
  /// Whether most states are records.
  bool keeps_records() const { return keeps_records_; }
  /// The hash of a key together with the space.
  KeyHash salted(const KeyHash& key) const { return {key.high ^ salt_.high, key.low ^ salt_.low}; }

 private:
  friend class LimitTable;

  const std::shared_ptr<LimitTable> limits_;
  const LimitId id_;
  const bool keeps_records_;
  const KeyHash salt_;
  std::atomic<LimitId> largest_{0};  // That of its row. 0 unless the numbers vary.
};

/// Gives an id to each limit that judges a store's keys: to each space and, if its numbers vary, to
/// the numbers of those of its keys that deny. The ids are taken while a caller holds the space or
/// it has keys. Where an allocation fails in the midst of a change, the process ends: the functions
/// that change the table are noexcept, since a server goes on after std::bad_alloc. Thread-safe.
class LimitTable : public std::enable_shared_from_this<LimitTable> {
 public:
  static constexpr std::size_t kMaxSpaces = NumbersTable::kFirst - 1;

  /// The spaces may take 4 MiB and a 32nd of `max_bytes` in addition to the keys; those without a
  /// name seven eighths of that, so that a client that sends ever-new expressions leaves room for
  /// others.
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

  /// The id of a new key of the space, which has not been charged.
  static LimitId id_of_new(const MemorySpace& space) {
    return space.varies() ? space.largest() : space.id();
  }
  /// A key of the space, which has the id `own`, is judged by these numbers from now on. If it
  /// admits a unit by them, it goes on to do so until it is charged again, and the largest numbers
  /// say as much. If it denies one, it gets an id of its numbers, which it keeps, or of smaller
  /// ones if there is no room for its own.
  void judge_key(LimitId& own, const MemorySpace& space, const LimitDefinition& limit,
                 bool denies) noexcept {
    const LimitId largest = space.largest();
    if (largest != 0 && (denies || own != largest)) change_numbers(own, space, limit, denies);
  }
  /// One more key has the id, which another one has, too.
  void add_key(LimitId id) {
    if (NumbersTable::has(id)) numbers_.add_key(id);
    row(space_of(id)).uses.fetch_add(1, std::memory_order_relaxed);
  }
  /// A key is gone.
  void remove_key(LimitId id) {
    const LimitId space = space_of(id);
    if (NumbersTable::has(id)) numbers_.remove_key(id);
    remove_uses(space, 1);
  }
  /// Parts of the kind of the key's limit, by which it is fresh only if it is so by its own
  /// numbers. None if its space was replaced by one of another kind, so that no request finds the
  /// key.
  const std::vector<AnyPart>& parts(LimitId id) const {
    const Row& space = row(space_of(id));
    const auto& parts = *space.parts.load(std::memory_order_acquire);
    return parts.empty() || !NumbersTable::has(id) ? parts : *space.smallest.parts;
  }
  /// The parts by which a key is judged, or none, as above. They are in the table or in `room`.
  using OwnParts = boost::container::static_vector<AnyPart, kMaxParts>;
  Parts own_parts(LimitId id, OwnParts& room) const;
  /// The keys of the limit's space, and far more than any space has if a caller holds it.
  std::uint64_t uses(LimitId id) const {
    return row(space_of(id)).uses.load(std::memory_order_relaxed);
  }

  /// For a snapshot: what a limit is, by which it can be made again in another table.
  struct Image {
    LimitId space = 0;  // The id of its space, or its own, if it is that.
    std::uint64_t made = 0;
    std::string name = {};  // Of the space.
    std::vector<AnyPart> parts = {};
    // Of a space whose numbers vary: the id of its largest ones, which makes them vary again where
    // it is restored. 0 otherwise.
    LimitId largest = 0;
  };
  Image image_of(LimitId id);
  /// Makes a limit again: one of the numbers of `space`, which has been made again before, or, if
  /// that is 0, a space, whose name no other space keeps. Counts as one key's. Returns 0 if there
  /// is no room for the space.
  LimitId restore(const Image& image, LimitId space);

 private:
  friend class MemorySpace;

  using PartList = std::vector<AnyPart>;

  // What only the row of a space needs.
  struct SpaceData {
    std::string name;
    std::weak_ptr<MemorySpace> handle = {};
    std::uint64_t made = 0;  // The value of spaces_made_, which the space's salt is made from.
    bool was_held = false;   // Not if it has only been restored.
  };

  // What a handle adds to the uses of its space: more than it may have keys.
  static constexpr std::uint64_t kHandle = std::uint64_t{1} << 48;

  // Parts of the space's kind with smallest_used() or largest_used(), and the id of these.
  struct Extreme {
    LimitId id = 0;
    std::unique_ptr<const PartList> parts = nullptr;
  };

  // Rows are never freed, only used again for other spaces, so that they may be read at any time.
  struct Row {
    // The keys of the space, and kHandle for each handle. Ceases to be 0 only with mutex_ held.
    std::atomic<std::uint64_t> uses{0};
    std::atomic<const PartList*> parts{nullptr};
    // Constant from when the numbers vary until the space is dropped: see judge_key().
    Extreme smallest;
    Extreme largest;
    LimitId next = 0;  // The next free row, or 0.
    // Guarded by mutex_.
    std::uint32_t bytes = 0;          // Counted in bytes_.
    std::unique_ptr<SpaceData> data;  // Null if the row is free.
  };
  static constexpr std::size_t kRowsAtOnce = 256;
  using Chunk = std::array<Row, kRowsAtOnce>;

  Row& row(LimitId id) const {
    return (*chunks_[id / kRowsAtOnce].load(std::memory_order_acquire))[id % kRowsAtOnce];
  }

  LimitId space_of(LimitId id) const { return NumbersTable::has(id) ? numbers_.space(id) : id; }
  void change_numbers(LimitId& own, const MemorySpace& space, const LimitDefinition& limit,
                      bool denies) noexcept;

  // The following functions need mutex_.
  bool has_room(std::size_t bytes, std::size_t eighths_kept = 0) const;
  [[noreturn]] void refuse();
  LimitId add_row(const std::string& name, const PartList& parts) noexcept;
  void free_row(LimitId id) noexcept;
  bool begin_to_vary(LimitId space, MemorySpace* handle) noexcept;
  std::shared_ptr<Space> hold(LimitId id, const LimitDefinition& limit) noexcept;
  std::unique_ptr<const PartList> give_name(LimitId id, LimitId former) noexcept;
  void count_bytes(std::size_t bytes);

  void remove_uses(LimitId space, std::uint64_t count) {
    if (row(space).uses.fetch_sub(count, std::memory_order_acq_rel) == count) drop_unused(space);
  }
  void drop_unused(LimitId space);

  const std::size_t max_bytes_;
  std::atomic<std::uint64_t> refusals_{0};
  HashSecret secret_;
  std::atomic<Room> room_{Room::kAmple};
  NumbersTable numbers_;
  std::array<std::atomic<Chunk*>, (kMaxSpaces + 1) / kRowsAtOnce> chunks_{};
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
