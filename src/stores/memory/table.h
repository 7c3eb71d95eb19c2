#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "core/hash_secret.h"
#include "core/store.h"
#include "stores/memory/budget.h"
#include "stores/memory/judge.h"
#include "stores/memory/shard.h"

namespace sluice::memory {

/// Options of a table, the same for all tables of a store.
struct TableOptions {
  /// The secret of the keys' hash function.
  HashSecret secret = HashSecret::random();
  /// Whether the table forgets fresh keys, and evicts others if there is no room. If not, it throws
  /// StoreError when there is no room.
  bool forget = true;
  /// Whether a new key that finds no room is admitted without being recorded, instead of denied.
  bool allow_when_full = false;
};

/// Counters of all tables of a store. Thread-safe.
struct Counters {
  /// Keys that were evicted for lack of room and were not fresh.
  std::atomic<std::uint64_t> evicted{0};
  /// Requests that found no room.
  std::atomic<std::uint64_t> refused_full{0};
};

class Table;

/// What all tables of a store share. It lives as long as the last of them.
struct Pool {
  explicit Pool(std::size_t max_bytes) : budget(max_bytes) {}

  Budget budget;
  Counters counters;
  std::mutex mutex;  // Guards the members below.
  std::vector<Table*> tables;
  std::size_t reclaim_at = 0;
};

/// The place of a key: its shard and its tag, from independent bits of one hash.
struct Place {
  Shard* shard = nullptr;
  Tag tag = 0;
};

/// The keys of one space, in shards that each have a lock. Thread-safe.
class Table : public Space {
 public:
  Table(const LimitDefinition& home, std::shared_ptr<Pool> pool, const TableOptions& options);
  ~Table() override;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// The place of a key.
  Place place_of(std::string_view key) const;
  Place place_of(const KeyHash& key) const {
    return {&shards_[key.low >> (64 - kShardBits)], key.high | (key.high == 0 ? 1 : 0)};
  }
  /// The same, and prefetches the key's line.
  Place locate(std::string_view key) const;
  Place locate(const KeyHash& key) const {
    const Place place = place_of(key);
    place.shard->prefetch(place.tag);
    return place;
  }

  /// Prefetches the record of the key, if it may have one. Takes the place's lock for that, unless
  /// it is held.
  void fetch_record(Place place) const;

  /// Decides one request at `now`, or at the clock's time. Takes the key's lock.
  void decide_one(const Request& request, Instant now, const Clock& clock, Decision& decision);

  /// The following functions need the place's lock, unless they say otherwise.

  /// Decides one request.
  void decide(Place place, const Request& request, Instant now, Decision& decision);

  /// The key's cell; 0 if the key is not in the table.
  Cell key_cell(Place place) const;

  /// Makes room for these changes, one for each part of the request's limit, so that commit()
  /// cannot fail. If there is no room, returns false, or throws StoreError if the table may forget
  /// nothing; the key behaves as before. Does not evict the tags in `pinned`.
  bool reserve(Place place, const Request& request, Instant now, std::span<const Judged> judged,
               std::span<const Tag> pinned);
  /// Applies the changes. Returns the end of the key's block, or 0.
  Instant commit(Place place, const Request& request, Instant now, std::span<const Judged> judged);

  /// Forgets the key.
  void reset(Place place);

  /// The time after which a key that found no room may find some.
  std::chrono::nanoseconds room_after(Place place, Instant now) const;

  /// Sets the numbers by which the table decides which key to forget. Takes every lock.
  /// REQUIRES: keeps_state(home(), parts). Not thread-safe.
  void judge_by(const std::vector<AnyPart>& parts);

  /// True if every key is fresh. Takes each lock in turn.
  bool all_fresh(Instant now);

  /// The number of keys, including fresh ones that are not yet forgotten. Takes each lock in turn.
  std::size_t size();

  const std::vector<AnyPart>& home() const { return home_; }
  const TableOptions& options() const { return options_; }
  Counters& counters() { return pool_->counters; }

  static constexpr std::size_t kShardBits = 10;
  static constexpr std::size_t kShards = std::size_t{1} << kShardBits;

 private:
  template <class A>
  [[gnu::noinline]] void take_one(Place place, const Request& request, Instant now,
                                  Decision& decision);
  template <class A>
  [[gnu::noinline]] void step_one(Place place, const Request& request, Instant now,
                                  Decision& decision);
  [[gnu::noinline]] void decide_other(Place place, const Request& request, Instant now,
                                      Decision& decision);
  [[gnu::noinline]] void decide_alone(Place place, const Request& request, Instant now,
                                      Decision& decision);
  Cell* make_cell(Place place, Instant now, std::span<const Tag> pinned);
  KeyParts key_parts(const Request& request) const;
  /// The cell of a key's single state, if the request may change it without any other change; else
  /// null.
  Cell* own_state(Cell& key, const Request& request) const;
  void must_forget() const;
  /// Grows a shard, if necessary with memory that other tables free.
  bool grow(Shard& shard, Instant now);
  /// Lets another table free memory. Returns false if it freed none.
  bool reclaim_elsewhere(Instant now);
  /// Forgets fresh keys and shrinks shards. Returns false if that freed no memory.
  bool reclaim(Instant now);
  /// Frees at least `bytes` bytes of records. Returns false if it cannot.
  bool make_room(Place place, std::size_t bytes, Instant now, std::span<const Tag> pinned);
  /// Locks and visits other shards until `visit` returns true. `visit` gets the shard and the
  /// number of lines that it may examine.
  template <class Visit>
  bool visit_others(const Shard& here, Visit visit);
  /// Forgets the fresh keys of the next lines. Returns the bytes of their records.
  std::size_t sweep(Shard& shard, std::uint32_t lines, Instant now, std::span<const Tag> pinned);
  /// Forgets keys that do not deny, nearest to fresh first, until `bytes` bytes of their records
  /// are free: at least one key, or none if all of them would not suffice. Returns how many.
  std::size_t evict(Shard& shard, Tag near, std::size_t bytes, Instant now,
                    std::span<const Tag> pinned);
  void erase(Shard& shard, Tag tag, Cell cell);

  std::vector<AnyPart> home_;  // Reading needs the lock of any shard, writing the locks of all.
  const bool varies_;
  const bool keeps_records_;
  const TableOptions options_;
  const std::shared_ptr<Pool> pool_;
  Account account_;
  /// Memory-mapped, so that the pages of unused shards need no memory.
  Shard* const shards_;
  std::atomic<std::uint32_t> room_at_{0};  // The shard that is searched for room next.
};

/// One of several requests that are decided together, and the place of its key.
struct Member {
  Table* table = nullptr;
  Place place;
  Request request;
  /// The end of the key's block, or 0. Set when the request is decided.
  Instant blocked_until = 0;
};

/// Charges all members or none, and returns one decision. `judged` has an element for every part of
/// every member. REQUIRES: the locks of all places are held; no two members have the same table and
/// tag.
Decision decide_together(std::span<Member> members, Instant now, std::span<Judged> judged);

/// Takes as many of the request's units as remain. `judged` and REQUIRES as for decide_together().
Decision decide_up_to(Member& member, Instant now, std::span<Judged> judged);

}  // namespace sluice::memory
