#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/hash_secret.h"
#include "core/store.h"
#include "stores/memory/budget.h"
#include "stores/memory/judge.h"
#include "stores/memory/key_codec.h"
#include "stores/memory/limit_table.h"
#include "stores/memory/shard.h"

namespace sluice::memory {

/// Options of a table.
struct TableOptions {
  /// The secret of the keys' hash function.
  HashSecret secret = HashSecret::random();
  /// Whether the table forgets fresh keys, and evicts others if there is no room. If not, it throws
  /// StoreError when there is no room.
  bool forget = true;
  /// Whether a new key that finds no room is admitted without being recorded, instead of denied.
  bool allow_when_full = false;
};

/// Counters of a table. Thread-safe.
struct Counters {
  /// Keys that were evicted for lack of room and were not fresh.
  std::atomic<std::uint64_t> evicted{0};
  /// Requests that found no room: denied, or, with allow_when_full, admitted without a record.
  std::atomic<std::uint64_t> without_room{0};
};

/// The place of a key: its shard and its tag, from independent bits of one hash.
struct Place {
  Shard* shard = nullptr;
  Tag tag = 0;
};

/// One of several requests that are decided together, and the place of its key.
struct Member {
  Place place;
  Request request;
  /// Room for the result of each part of the request's limit.
  std::span<Judged> judged;
  /// Set by the decision: a part denies any cost, whether the key is blocked or not.
  bool denies_all = false;
  /// Likewise: the new key found no room, and is admitted without being recorded.
  bool is_unrecorded = false;
  /// Set by a reservation that fails: the bytes of the record that found no room; 0 if the key
  /// found no slot.
  std::size_t lacking_bytes = 0;
};

/// What shall count of one part of a key: these units, as if taken at this instant, and no others.
struct Used {
  Instant at = 0;
  std::int64_t units = kAsBefore;

  /// The part is left as it is.
  static constexpr std::int64_t kAsBefore = -1;
};

/// The keys of all spaces, in shards that each have a lock. Thread-safe.
class Table {
 public:
  /// Throws StoreError if there is no memory for an empty table.
  Table(std::size_t max_bytes, const TableOptions& options);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  LimitTable& limits() { return *limits_; }
  const LimitTable& limits() const { return *limits_; }

  /// The place of a key that the caller has hashed with the table's secret.
  Place place_of(const MemorySpace& space, const KeyHash& key) const {
    const KeyHash hash = space.salted(key);
    return {&shards_[hash.low >> (64 - kShardBits)], hash.high | (hash.high == 0 ? 1 : 0)};
  }
  Place place_of(const Request& request) const;
  /// The same, and prefetches the key's line.
  Place locate(const Request& request) const;

  /// Prefetches what else the decision may need: what a new key needs and, where most states are
  /// records, the key's record. For that it tries to take the place's lock, and does without the
  /// record if another thread has it.
  void prefetch_rest(Place place, const Request& request) const;

  /// Decides one request at `now`, or at the clock's time. Takes the key's lock.
  void decide_one(const Request& request, Instant now, const Clock& clock, Decision& decision);

  /// Decides one request. Needs the place's lock.
  void decide(Place place, const Request& request, Instant now, Decision& decision);

  /// If it is time for that, examines one line, and frees memory if most of the keys examined
  /// lately were fresh. Needs the shard's lock.
  void sweep_if_due(Shard& shard, Instant now) {
    if (shard.is_due()) [[unlikely]]
      sample_and_sweep(shard, now);
  }

  // For callers that hash keys themselves. Each takes the place's lock.

  /// Decides one request.
  void decide_at(Place place, const Request& request, Instant now, Decision& decision);
  /// Replaces what counts of the parts of a key; its block remains. If there is no room, nothing
  /// counts of the replaced parts, or nothing is changed. Of the request, only the limit, which
  /// lends no permits, and the space are used.
  void set_used(Place place, const Request& request, std::span<const Used> parts);
  /// Ends the block of a key, if it has one.
  void unblock(Place place);
  /// What one part of a key would answer to this take by these numbers, as if the key were not
  /// blocked. Nothing is taken.
  Decision peek_part(Place place, const AnyPart& part, std::size_t index, const Call& call) const;

  /// Charges all members or none, and returns one decision. Needs the locks of all places.
  /// REQUIRES: no two members have the same place.
  Decision decide_together(std::span<Member> members, Instant now);

  /// Waits until every thread that has a shard's lock has released it.
  void wait_for_readers();

  /// For the limits, if they have little room: forgets fresh keys of some shards, and if they have
  /// hardly any room, keys that do not deny, of spaces with few keys that no caller holds. All keys
  /// have their turn within a few thousand calls. Takes one lock at a time, for 128 lines at most.
  void make_room_for_limits(Instant now);

  /// For snapshots. REQUIRES: index < kShards.
  Shard& shard(std::size_t index) {
    assert(index < kShards);
    return shards_[index];
  }
  /// REQUIRES: no space has been opened.
  void set_secret(const HashSecret& secret);
  /// Makes room for so many keys of a shard, if there is any. Takes its lock. `usual` is how many
  /// keys a shard has on average, of those loaded so far. If that is clearly more than every shard
  /// has room for, none gets more than its share: otherwise the shards that are loaded first would
  /// leave none to the others. Returns the most bytes of lines to which restore() may let the shard
  /// grow.
  std::size_t make_room_for(Shard& shard, std::uint32_t keys, std::uint64_t usual);
  enum class Restored : std::uint8_t { kKept, kFresh, kWithoutRoom, kTwice };
  /// Gives a key its states, unless they are as if never seen, or there is no room or another key
  /// at this place. Makes room as for a new key. `limit` is the id of a limit that was
  /// restored. Takes the place's lock.
  Restored restore(Place place, LimitId limit, const KeyImage& image, Instant now,
                   std::size_t most_bytes);

  /// The number of keys, including fresh ones that are not yet forgotten. Takes each lock in turn.
  std::size_t size();

  std::size_t used_bytes() const { return budget_.used_bytes(); }
  const TableOptions& options() const { return options_; }
  const Counters& counters() const { return counters_; }

  static constexpr std::size_t kShardBits = 10;
  static constexpr std::size_t kShards = std::size_t{1} << kShardBits;

 private:
  template <class A>
  [[gnu::noinline]] void take_packed(Place place, const Request& request, Instant now,
                                     Decision& decision);
  template <class A>
  [[gnu::noinline]] void step_part(Place place, const Request& request, Instant now,
                                   Decision& decision);
  [[gnu::noinline]] void decide_by_parts(Place place, const Request& request, Instant now,
                                         Decision& decision);

  /// The following functions need the place's lock.

  /// The key's cell; 0 if the key is not in the table.
  Cell key_cell(Place place) const;
  auto judge_of(Member& member) const;
  void judge_member(Member& member, Operation operation, const Call& call) const;
  void retract(std::span<Member> members, Instant now) const;
  Member* reserve_all(std::span<Member> members, Instant now);
  /// Makes room for the member's changes, so that commit() cannot fail. If there is no room,
  /// returns false, or throws StoreError if the table may forget nothing; the key behaves as
  /// before. Does not evict the tags in `pinned`.
  bool reserve(Member& member, Instant now, std::span<const Tag> pinned);
  /// Applies the member's changes.
  void commit(const Member& member, Instant now);
  /// The key was charged by the numbers of this request, or denied everything. So it is judged by
  /// them, and not by earlier ones, when a new key needs room.
  void judge_key(Place place, const Cell* cell, const Request& request, bool denies) {
    const MemorySpace& space = MemorySpace::of(request);
    if (!space.varies()) return;
    limits_->judge_key(place.shard->limit_of(cell), space, *request.limit, denies);
  }
  /// A new cell for the request's key, or null if there is no room.
  [[gnu::noinline]] Cell* make_cell(Place place, const Request& request, Instant now,
                                    std::span<const Tag> pinned);
  /// Makes room for another key in a crowded shard: forgets fresh keys, or grows.
  bool make_slot(Shard& shard, Instant now, std::span<const Tag> pinned);
  /// Grows a shard, if fresh keys of other shards make room for that.
  bool grow_at_others_expense(Shard& shard, Instant now, std::span<const Tag> pinned);
  /// Whether at least a quarter of some keys of the shard are fresh.
  bool is_worth_sweeping(Shard& shard, Instant now);
  void sample_and_sweep(Shard& shard, Instant now);
  void must_forget() const;
  /// Makes room for one more key in the shard. Returns false if it cannot.
  bool make_room_for_key(Shard& shard, Tag tag, Instant now, std::span<const Tag> pinned);
  /// Makes place for records that there is room for, else frees at least `bytes` bytes of records.
  /// Returns false if it cannot. Moves the records of the place's shard.
  bool make_room(Place place, std::size_t bytes, Instant now, std::span<const Tag> pinned);
  /// Locks and visits other shards until `visit` returns true. `visit` gets the shard and the
  /// number of lines that it may examine.
  template <class Visit>
  bool visit_others(const Shard& here, Visit visit);
  /// Forgets those keys of the next lines for which `is_useless` is true. Returns the bytes of
  /// their records.
  template <class IsUseless>
  std::size_t sweep(Shard& shard, std::uint32_t lines, IsUseless is_useless);
  std::size_t sweep_fresh(Shard& shard, std::uint32_t lines, Instant now,
                          std::span<const Tag> pinned);
  /// Forgets keys that do not deny, nearest to fresh first, until `bytes` bytes of their records
  /// are free: at least one key, or none if all of them would not suffice. Returns how many.
  std::size_t evict(Shard& shard, Tag near, std::size_t bytes, Instant now,
                    std::span<const Tag> pinned);
  /// Releases what a key has, but not its slot.
  void release(Shard& shard, const Slot& slot);
  void erase(Shard& shard, const Slot& slot);
  Standing standing_of(const Slot& slot, Instant now) const;
  bool is_fresh_slot(const Slot& slot, Instant now) const;
  /// The time after which a member that found no room may find some: when a key near it that has as
  /// much denies no more.
  std::chrono::nanoseconds room_after(const Member& member, Instant now) const;

  /// How often one call tries to make room for a part of a state.
  static constexpr std::size_t kMostTries = 8;

  TableOptions options_;
  Budget budget_;
  Counters counters_;
  const std::shared_ptr<LimitTable> limits_;
  const std::unique_ptr<Shard[]> shards_;
  std::atomic<std::uint32_t> room_at_{0};     // The shard that is searched for room next.
  std::atomic<std::size_t> limits_calls_{0};  // Of make_room_for_limits().
};

}  // namespace sluice::memory
