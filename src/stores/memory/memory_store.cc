#include "stores/memory/memory_store.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <functional>
#include <vector>

#include "algorithms/check_together.h"
#include "sluice/health.h"

namespace sluice {
namespace {

using memory::Member;
using memory::Place;

// For how many requests the lines are prefetched ahead, and for how many the records.
constexpr std::size_t kAhead = 16;
constexpr std::size_t kRecordsAhead = 8;

// Locks the shards of all members, each once, in the order of their addresses, so that two calls
// cannot deadlock.
class ShardLocks {
 public:
  explicit ShardLocks(std::span<const Member> members) {
    for (const auto& member : members) shards_[count_++] = member.place.shard;
    std::sort(shards_.begin(), end(), std::less<>());
    count_ = static_cast<std::size_t>(std::unique(shards_.begin(), end()) - shards_.begin());
    // A deadlock of two calls is so rare that no test would show it.
    assert(std::adjacent_find(shards_.begin(), end(), std::greater_equal<>()) == end());
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

std::size_t checked(std::size_t max_bytes) {
  if (max_bytes >= MemoryStore::kLeastBytes) return max_bytes;
  throw StoreError("memory store: max_bytes is " + std::to_string(max_bytes) +
                   ", but it is at least " + std::to_string(MemoryStore::kLeastBytes));
}

}  // namespace

MemoryStore::MemoryStore(const MemoryOptions& options)
    : caller_clock_(options.caller_clock), table_(checked(options.max_bytes), options.table) {}

std::shared_ptr<Space> MemoryStore::replace_space(const std::shared_ptr<Space>& held,
                                                  const LimitDefinition& limit) {
  table_.make_room_for_limits(now());
  auto opened = table_.limits().open(limit, held);
  if (opened.retired != nullptr) table_.wait_for_readers();
  return std::move(opened.space);
}

void MemoryStore::decide(std::span<const Request> requests, Instant now,
                         std::span<Decision> decisions) {
  assert(decisions.size() >= requests.size());
  if (requests.size() != 1) return decide_each(requests, now, decisions);
  table_.decide_one(requests[0], now, clock_, decisions[0]);
}

// Prefetches keys ahead of their decision: far enough ahead for a line to arrive from main memory,
// and not more lines than a core can wait for at once.
void MemoryStore::decide_each(std::span<const Request> requests, Instant now,
                              std::span<Decision> decisions) {
  std::array<Place, kAhead> places;
  const auto prefetch_rest = [&](std::size_t i) {
    table_.prefetch_rest(places[i % kAhead], requests[i]);
  };
  // For the first requests, prefetch all shards and then all lines.
  const std::size_t first = std::min(kAhead, requests.size());
  for (std::size_t i = 0; i < first; ++i) {
    places[i] = table_.place_of(requests[i]);
    __builtin_prefetch(places[i].shard, 1);
  }
  for (const Place& place : std::span(places).first(first)) place.shard->prefetch(place.tag);
  if (now == kStoreTime) now = clock_.now();
  for (std::size_t i = 0; i < std::min(kRecordsAhead, requests.size()); ++i) prefetch_rest(i);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i + kRecordsAhead < requests.size()) prefetch_rest(i + kRecordsAhead);
    {
      const Place& place = places[i % kAhead];
      const std::lock_guard lock(place.shard->lock);
      table_.decide(place, requests[i], now, decisions[i]);
    }
    if (i + kAhead < requests.size()) places[i % kAhead] = table_.locate(requests[i + kAhead]);
  }
}

void MemoryStore::decide_all(std::span<const Request> requests, Instant now, Decision& decision) {
  assert(!requests.empty());
  check_together(requests);
  std::array<Member, kMaxTogether> room;
  const auto members = std::span(room).first(requests.size());
  std::size_t parts = 0;
  for (const Request& request : requests) parts += request.limit->parts.size();
  std::vector<memory::Judged> judged(parts);
  auto next = judged.begin();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    members[i].place = table_.locate(requests[i]);
    members[i].request = requests[i];
    members[i].judged = {next, requests[i].limit->parts.size()};
    next += std::ssize(members[i].judged);
  }
  if (now == kStoreTime) now = clock_.now();
  const ShardLocks locks(members);
  for (const Member& member : members) table_.sweep_if_due(*member.place.shard, now);
  decision = table_.decide_together(members, now);
}

void MemoryStore::add_health(StoreHealth& health) const {
  health.state = StoreHealth::State::kUp;
  health.evicted = counters().evicted.load(std::memory_order_relaxed);
  health.without_room = counters().without_room.load(std::memory_order_relaxed);
  health.refused = table_.limits().refusals();
  if (health.refused != 0) health.refusal = "there is no room for another limit";
}

}  // namespace sluice
