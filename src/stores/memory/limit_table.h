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

#include "core/hash_secret.h"
#include "core/store.h"
#include "stores/memory/judge.h"
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
  /// Whether its keys stay, while a caller holds it, where limits have little room. See
  /// LimitDefinition::any_numbers.
  bool keeps_keys() const { return keeps_keys_; }
  /// See LimitDefinition::varies.
  bool varies() const { return hints_.load(std::memory_order_acquire) != nullptr; }
  /// Whether most states are records.
  bool keeps_records() const { return keeps_records_; }
  /// The hash of a key together with the space.
  KeyHash salted(const KeyHash& key) const { return {key.high ^ salt_.high, key.low ^ salt_.low}; }

 private:
  friend class LimitTable;

  // The limits' ids that were found last, by the addresses of their definitions.
  using Hints = std::array<std::atomic<LimitId>, 4096>;

  // From now on its keys may have numbers of their own.
  void begin_to_vary(Hints* hints) { hints_.store(hints, std::memory_order_release); }

  const std::shared_ptr<LimitTable> limits_;
  const LimitId id_;
  const bool keeps_keys_;
  const bool keeps_records_;
  const KeyHash salt_;
  std::atomic<Hints*> hints_{nullptr};  // Those of its row. Null unless the numbers vary.
};

/// Gives an id to each limit that judges a store's keys: one for each space, and one for each set
/// of numbers under which a space whose numbers vary has keys. An id is taken while a caller holds
/// the space or a key has the id, so a limit is forgotten after its last key. Thread-safe.
class LimitTable : public std::enable_shared_from_this<LimitTable> {
 public:
  static constexpr std::size_t kMaxLimits = 65'535;

  /// The limits may take 4 MiB and a 32nd of `max_bytes` in addition to the keys. A sixteenth of
  /// that is kept for limits with a name and for numbers of their keys, and another one for numbers
  /// that calls name (LimitDefinition::any_numbers): a client that sends ever-new numbers or
  /// expressions leaves room for the others.
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
    std::shared_ptr<MemorySpace> space;
    /// What other threads may still judge by, each until it unlocks the shard that it has locked.
    std::unique_ptr<const std::vector<AnyPart>> retired;
  };
  /// As Store::replace_space().
  Opened open(const LimitDefinition& limit, const Space* held);

  /// How close the limits are to what they may take.
  enum class Room : std::uint8_t { kAmple, kScarce, kShort };
  Room room() const { return room_.load(std::memory_order_relaxed); }
  /// About the most spaces there is room for.
  std::size_t most() const;

  // The following functions may be called with a shard's lock. A limit is valid while a key in a
  // locked shard has it.

  /// The id of the limit by which a new key of the space is judged; the key then counts as having
  /// it. 0 if there is no room for the limit's numbers.
  LimitId add_key(const MemorySpace& space, const LimitDefinition& limit) {
    if (space.varies()) return add_varying_key(space, limit);
    row(space.id()).uses.fetch_add(1, std::memory_order_relaxed);
    return space.id();
  }
  /// One more key has the id, which another key has, too.
  void add_key(LimitId id) { row(id).uses.fetch_add(1, std::memory_order_relaxed); }
  /// A key is gone.
  void remove_key(LimitId id) {
    if (row(id).uses.fetch_sub(1, std::memory_order_acq_rel) == 1) drop_unused(id);
  }
  /// Whether a key with this id is one of the space that is judged by this limit.
  bool judges(LimitId id, const MemorySpace& space, const LimitDefinition& limit) const {
    if (!space.varies()) return id == space.id();
    return row(id).space == space.id() && parts(id) == limit.parts;
  }
  /// The parts by which a key is judged; none if its space was replaced by one of another kind, so
  /// that no request finds the key.
  const std::vector<AnyPart>& parts(LimitId id) const {
    const Row& own = row(id);
    const auto& of_space = *row(own.space).parts.load(std::memory_order_acquire);
    return of_space.empty() ? of_space : *own.parts.load(std::memory_order_acquire);
  }
  /// Whether the limit is forgotten with the key that has this id.
  bool has_one_use(LimitId id) const { return uses(id) == 1; }
  /// The keys that have this id, and what else needs the limit.
  std::uint32_t uses(LimitId id) const { return row(id).uses.load(std::memory_order_relaxed); }
  /// Whether a caller holds the limit's space, which keeps its keys then.
  bool is_held(LimitId id) const {
    return row(row(id).space).holders.load(std::memory_order_relaxed) != 0;
  }

  /// For a snapshot: what a limit is, by which it can be made again in another table.
  struct Image {
    LimitId space = 0;  // The id of its space, or its own, if it is that.
    std::uint64_t made = 0;
    std::string name = {};  // Of the space.
    std::vector<AnyPart> parts = {};
  };
  Image image_of(LimitId id, const std::vector<AnyPart>& parts);
  /// Makes a limit again: one of the numbers of `space`, which has been made again before, or, if
  /// that is 0, a space, whose name no other space keeps. Counts as one key's. Returns 0 if there
  /// is no room.
  LimitId restore(const Image& image, LimitId space);

 private:
  friend class MemorySpace;

  using PartList = std::vector<AnyPart>;

  // What only the row of a space needs.
  struct SpaceData {
    std::string name;
    std::weak_ptr<MemorySpace> handle = {};
    std::uint64_t made = 0;  // The value of spaces_made_, which the space's salt is made from.
    // Not null once the numbers vary: some keys may have rows of their own.
    std::unique_ptr<MemorySpace::Hints> hints = nullptr;
  };

  // Rows are never freed, only used again for other limits, so that they may be read at any time.
  // A key with numbers of its own has a row of its own, so a row is small.
  struct Row {
    // The keys, holders and rows that need this one. Becomes 1 from 0 only with mutex_ held.
    std::atomic<std::uint32_t> uses{0};
    std::atomic<std::uint32_t> holders{0};  // Of a space that keeps_keys().
    std::atomic<const PartList*> parts{nullptr};
    LimitId space = 0;  // The row of its space; its own id, if it is that. 0: not in use.
    // Guarded by mutex_.
    LimitId next = 0;                 // The next row of numbers with the same head, or 0.
    std::uint32_t bytes = 0;          // Counted in bytes_.
    std::unique_ptr<SpaceData> data;  // Null unless the row is that of a space.
  };
  static constexpr std::size_t kRowsAtOnce = 256;
  using Chunk = std::array<Row, kRowsAtOnce>;

  Row& row(LimitId id) const {
    return (*chunks_[id / kRowsAtOnce].load(std::memory_order_acquire))[id % kRowsAtOnce];
  }

  LimitId& head_of(LimitId space, const PartList& parts);

  // The following functions need mutex_.
  bool has_room(std::size_t bytes, std::size_t sixteenths_kept = 0) const;
  void require_room(const LimitDefinition& limit) const;
  LimitId add_row(std::string name, const PartList& parts);
  LimitId find_numbers(LimitId head, LimitId space, const PartList& parts) const;
  LimitId add_numbers(LimitId& head, LimitId space, const PartList& parts,
                      std::size_t sixteenths_kept = 0);
  LimitId use_row(const PartList& parts, std::size_t bytes, LimitId space);
  void forget_index(LimitId id);
  std::shared_ptr<MemorySpace> hold(LimitId id, const LimitDefinition& limit);
  std::unique_ptr<const PartList> retire(LimitId id);
  void count_bytes(std::size_t bytes);

  LimitId add_varying_key(const MemorySpace& space, const LimitDefinition& limit);
  bool pin_if_equal(LimitId id, const MemorySpace& space, const PartList& parts);
  void drop_unused(LimitId id);
  void let_go(const MemorySpace& space);

  const std::size_t max_bytes_;
  HashSecret secret_;
  std::atomic<Room> room_{Room::kAmple};
  std::array<std::atomic<Chunk*>, (kMaxLimits + 1) / kRowsAtOnce> chunks_{};
  std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<std::string_view, LimitId> ids_;  // Of spaces, by their names.
  // The first row of each list of numbers; a hash of the numbers chooses the list.
  std::array<LimitId, (kMaxLimits + 1) / 4> heads_{};
  std::vector<LimitId> free_;
  std::size_t rows_ = 0;   // Rows that have ever been used.
  std::size_t bytes_ = 0;  // Of all rows in use.
  std::uint64_t spaces_made_ = 0;
};

}  // namespace sluice::memory
