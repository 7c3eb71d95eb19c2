#include "stores/memory/memory_store.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <functional>
#include <stdexcept>
#include <vector>

namespace sluice {
namespace {

using memory::Member;
using memory::Place;
using memory::Table;

// For how many requests the lines are prefetched ahead, and for how many the records.
constexpr std::size_t kAhead = 16;
constexpr std::size_t kRecordsAhead = 8;

Table& table_of(const Request& request) {
  return static_cast<Table&>(*request.space);
}

// Locks the shards of all members, each once, in the order of their addresses, so that two calls
// cannot deadlock.
class ShardLocks {
 public:
  explicit ShardLocks(std::span<const Member> members) {
    for (const auto& member : members) shards_[count_++] = member.place.shard;
    std::sort(shards_.begin(), end(), std::less<>());
    count_ = static_cast<std::size_t>(std::unique(shards_.begin(), end()) - shards_.begin());
    for (auto shard = shards_.begin(); shard != end(); ++shard) (*shard)->lock.lock();
  }
  ~ShardLocks() {
    for (auto shard = shards_.begin(); shard != end(); ++shard) (*shard)->lock.unlock();
  }
  ShardLocks(const ShardLocks&) = delete;
  ShardLocks& operator=(const ShardLocks&) = delete;

 private:
  std::array<memory::Shard*, kMaxTogether>::iterator end() {
    return shards_.begin() + static_cast<std::ptrdiff_t>(count_);
  }

  std::array<memory::Shard*, kMaxTogether> shards_{};
  std::size_t count_ = 0;
};

}  // namespace

MemoryStore::MemoryStore(const MemoryOptions& options)
    : options_(options), pool_(std::make_shared<memory::Pool>(options.max_bytes)) {
  if (options.max_bytes < kLeastBytes) {
    throw StoreError("memory store: max_bytes is " + std::to_string(options.max_bytes) +
                     ", but it is at least " + std::to_string(kLeastBytes));
  }
}

// `held` is a space that the caller will give up, so it counts as idle; or null.
std::shared_ptr<Table> MemoryStore::open(const LimitDefinition& limit, const Space* held) {
  std::shared_ptr<Table> forgotten;  // Destroyed after mutex_ is unlocked.
  const std::lock_guard lock(mutex_);
  const auto found = spaces_.find(limit.space);
  // While mutex_ is held no other thread can get a reference to a table that has no user: its use
  // count cannot grow from the minimum.
  if (found != spaces_.end()) {
    if (keeps_state(found->second->home(), limit.parts)) {
      found->second->judge_by(limit.parts);
      return found->second;
    }
    if (found->second.use_count() > (found->second.get() == held ? 2 : 1)) {
      throw StoreError("memory store: the keys of '" + limit.space + "' are those of '" +
                       describe_parts(found->second->home()) + "', which '" + limit.expression +
                       "' cannot take over while others use them");
    }
    forgotten = std::move(found->second);
    spaces_.erase(found);
  } else if (spaces_.size() >= kMaxSpaces) {
    forgotten = forget_idle_space();
  }
  auto table = std::make_shared<Table>(limit, pool_, options_.table);
  if (held != nullptr && forgotten.get() == held) table->succeed(*forgotten);
  spaces_.emplace(limit.space, table);
  return table;
}

// Removes an idle space, preferably one whose keys are all fresh among the few that it examines.
std::shared_ptr<Table> MemoryStore::forget_idle_space() {
  constexpr int kMostLookedAt = 16;
  const Instant now = options_.table.forget ? clock_.now() : 0;
  auto idle = spaces_.end();
  auto space = spaces_.upper_bound(forget_after_);
  for (std::size_t seen = 0, looked_at = 0;
       options_.table.forget && seen < spaces_.size() && looked_at < kMostLookedAt; ++seen) {
    if (space == spaces_.end()) space = spaces_.begin();
    const auto here = space++;
    if (here->second.use_count() > 1) continue;
    ++looked_at;
    const bool fresh = here->second->all_fresh(now);
    if (fresh || idle == spaces_.end()) idle = here;
    if (fresh) break;
  }
  if (idle == spaces_.end()) {
    throw StoreError("memory store: " + std::to_string(kMaxSpaces) +
                     " limits are in use, the most it can keep apart");
  }
  forget_after_ = idle->first;
  auto table = std::move(idle->second);
  spaces_.erase(idle);
  return table;
}

std::optional<std::uint64_t> MemoryStore::count_keys() {
  std::vector<std::shared_ptr<Table>> tables;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, table] : spaces_) tables.push_back(table);
  }
  std::uint64_t keys = 0;
  for (const auto& table : tables) keys += table->size();
  return keys;
}

void MemoryStore::decide(std::span<const Request> requests, Instant now,
                         std::span<Decision> decisions) {
  assert(decisions.size() >= requests.size());
  if (requests.size() != 1) return decide_each(requests, now, decisions);
  table_of(requests[0]).decide_one(requests[0], now, clock_, decisions[0]);
}

// Prefetches keys ahead of their decision: far enough ahead for a line to arrive from main memory,
// and not more lines than a core can wait for at once.
void MemoryStore::decide_each(std::span<const Request> requests, Instant now,
                              std::span<Decision> decisions) {
  std::array<Place, kAhead> places;
  const auto look_up = [&](std::size_t i) {
    places[i % kAhead] = table_of(requests[i]).locate(requests[i].key);
  };
  const auto fetch_record = [&](std::size_t i) {
    table_of(requests[i]).fetch_record(places[i % kAhead]);
  };
  // For the first requests, prefetch all shards and then all lines.
  const std::size_t first = std::min(kAhead, requests.size());
  for (std::size_t i = 0; i < first; ++i) {
    places[i] = table_of(requests[i]).place_of(requests[i].key);
    __builtin_prefetch(places[i].shard, 1);
  }
  for (const Place& place : std::span(places).first(first)) place.shard->prefetch(place.tag);
  if (now == kStoreTime) now = clock_.now();
  for (std::size_t i = 0; i < std::min(kRecordsAhead, requests.size()); ++i) fetch_record(i);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i + kRecordsAhead < requests.size()) fetch_record(i + kRecordsAhead);
    {
      const Place& place = places[i % kAhead];
      const std::lock_guard lock(place.shard->lock);
      table_of(requests[i]).decide(place, requests[i], now, decisions[i]);
    }
    if (i + kAhead < requests.size()) look_up(i + kAhead);
  }
}

void MemoryStore::carry_out(std::span<const Place> places, std::span<const Request> requests,
                            Instant now) {
  assert(places.size() >= requests.size());
  Decision unread;
  if (now == kStoreTime) now = clock_.now();
  const auto fetch_record = [&](std::size_t i) {
    if (i < requests.size()) table_of(requests[i]).fetch_record(places[i]);
  };
  for (std::size_t i = 0; i < kRecordsAhead; ++i) fetch_record(i);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    fetch_record(i + kRecordsAhead);
    const std::lock_guard lock(places[i].shard->lock);
    table_of(requests[i]).decide(places[i], requests[i], now, unread);
  }
}

Decision MemoryStore::decide_all(std::span<const Request> requests, Instant now) {
  assert(!requests.empty());
  if (requests.size() > kMaxTogether) {
    throw std::invalid_argument("at most " + std::to_string(kMaxTogether) +
                                " limits can be taken from together");
  }
  std::array<Member, kMaxTogether> room;
  const auto members = std::span(room).first(requests.size());
  std::size_t parts = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (lends(*requests[i].limit)) throw std::invalid_argument("permits are acquired one by one");
    Table& table = table_of(requests[i]);
    members[i] = {.table = &table, .place = table.locate(requests[i].key), .request = requests[i]};
    parts += requests[i].limit->parts.size();
    for (const auto& other : members.first(i)) {
      if (other.table == &table && other.place.tag == members[i].place.tag) {
        throw std::invalid_argument("the limit '" + requests[i].limit->space +
                                    "' is named twice for one key");
      }
    }
  }
  std::vector<memory::Judged> judged(parts);
  if (now == kStoreTime) now = clock_.now();
  const ShardLocks locks(members);
  return memory::decide_together(members, now, judged);
}

}  // namespace sluice
