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

/// How a table behaves; the same for all tables of a store.
struct TableOptions {
  /// What keys are hashed under.
  HashSecret secret = HashSecret::random();
  /// Forget states that equal fresh, and evict others where there is no room. Else StoreError.
  bool forget = true;
  /// A new key that finds no room is admitted, and not recorded, instead of denied.
  bool allow_when_full = false;
};

/// What all tables of a store have met. Thread-safe.
struct Counters {
  /// Keys forgotten for want of room that were not fresh.
  std::atomic<std::uint64_t> evicted{0};
  /// Requests that found no room.
  std::atomic<std::uint64_t> refused_full{0};
};

class Table;

/// What all tables of a store share; it lives as long as the last of them.
struct Pool {
  explicit Pool(std::size_t max_bytes) : budget(max_bytes) {}

  Budget budget;
  Counters counters;
  std::mutex mutex;  // guards the rest
  std::vector<Table*> tables;
  std::size_t reclaim_at = 0;
};

/// Where a key lives: its shard and its tag, from independent bits of one hash.
struct Place {
  Shard* shard = nullptr;
  Tag tag = 0;
};

/// The keys of one space: shards of lines, each with a lock of its own. Thread-safe.
class Table : public Space {
 public:
  Table(const LimitDefinition& home, std::shared_ptr<Pool> pool, const TableOptions& options);
  ~Table() override;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// Where a key lives.
  Place place_of(std::string_view key) const;
  Place place_of(const KeyHash& key) const {
    return {&shards_[key.low >> (64 - kShardBits)], key.high | (key.high == 0 ? 1 : 0)};
  }
  /// The same; asks the processor for its line.
  Place locate(std::string_view key) const;
  Place locate(const KeyHash& key) const {
    const Place place = place_of(key);
    place.shard->prefetch(place.tag);
    return place;
  }

  /// Asks the processor for what the key's cell names, where that may be something. Takes and lets
  /// go of the place's lock, if it is free.
  void fetch_record(Place place) const;

  /// One decision by the time given, or the clock's. Takes and lets go of the key's lock.
  void decide_one(const Request& request, Instant now, const Clock& clock, Decision& decision);

  /// The rest need the place's lock.

  /// One decision.
  void decide(Place place, const Request& request, Instant now, Decision& decision);

  /// The key's cell; 0 for one that is not there.
  Cell key_cell(Place place) const;

  /// Makes sure that commit() of these changes, one for each part of the request's limit, cannot
  /// fail. If there is no room: false, or StoreError where nothing may be forgotten; the key
  /// behaves as before. Tags in `pinned` are not evicted for it.
  bool reserve(Place place, const Request& request, Instant now, std::span<const Judged> judged,
               std::span<const Tag> pinned);
  /// When the key's block ends, or 0.
  Instant commit(Place place, const Request& request, Instant now, std::span<const Judged> judged);

  /// Forgets the key.
  void reset(Place place);

  /// The wait after which a key that found no room may find some.
  std::chrono::nanoseconds room_after(Place place, Instant now) const;

  /// Judges keys by these numbers from now on when one has to be forgotten. Takes and lets go of
  /// every lock. REQUIRES: keeps_state(home(), parts); the caller lets no two threads in at once.
  void judge_by(const std::vector<AnyPart>& parts);

  /// True if every key equals fresh. Takes and lets go of each lock.
  bool all_fresh(Instant now);

  /// Keys held, fresh ones not yet forgotten included. Takes and lets go of each lock.
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
  /// The cell of a single state that a request may change and leave all else as it is, or null.
  Cell* own_state(Cell& key, const Request& request) const;
  void must_forget() const;
  /// Grows a shard, if need be with what other tables give back.
  bool grow(Shard& shard, Instant now);
  /// Lets another table forget what equals fresh and give the bytes back; false if none did.
  bool reclaim_elsewhere(Instant now);
  bool give_back(Instant now);
  /// Frees at least so many bytes of records, if it can.
  bool make_room(Place place, std::size_t bytes, Instant now, std::span<const Tag> pinned);
  /// Visits other shards, lock held, until one visit says true; passes how many lines it may look
  /// at.
  template <class Visit>
  bool visit_others(const Shard& here, Visit visit);
  /// Forgets the fresh of the next lines; the bytes of their records.
  std::size_t sweep(Shard& shard, std::uint32_t lines, Instant now, std::span<const Tag> pinned);
  /// Forgets keys that deny nobody, nearest to fresh first, until their records' bytes suffice; at
  /// least one, or none if they would not suffice. How many.
  std::size_t evict(Shard& shard, Tag near, std::size_t bytes, Instant now,
                    std::span<const Tag> pinned);
  void erase(Shard& shard, Tag tag, Cell cell);

  std::vector<AnyPart> home_;  // guarded by every lock: to read it takes any, to write it all
  const bool varies_;
  const bool keeps_records_;
  const TableOptions options_;
  const std::shared_ptr<Pool> pool_;
  Account account_;
  /// Pages of it that nobody has used cost nothing.
  Shard* const shards_;
  std::atomic<std::uint32_t> room_at_{0};  // the shard in which room is looked for next
};

}  // namespace sluice::memory
