#include "stores/memory/table.h"

#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <mutex>
#include <type_traits>
#include <utility>

#include "stores/memory/group.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memory {
namespace {

constexpr std::size_t kShards = std::size_t{1} << Table::kShardBits;
// How often one request may make room for a part of its state, and at how many lines it looks each
// time.
constexpr std::size_t kMostTries = 4;
constexpr std::uint32_t kMostLines = 64;
// The lines of another table that are swept at once when this one finds no room.
constexpr std::uint32_t kMostReclaimed = 64;
// Denied for want of room, a caller is told to wait at least so long, and so long where nothing is
// known of when there will be some.
constexpr std::chrono::milliseconds kLeastWait{1};
constexpr std::chrono::seconds kUnknownWait{1};

void fill_secret(std::span<unsigned char> secret, bool fixed) {
  if (fixed) {
    XXH3_generateSecret(secret.data(), secret.size(), "sluice", 6);
    return;
  }
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    throw StoreError("memory store: the system has no random bytes for a table's secret");
  }
}

// Zeroed memory is an array of empty shards.
static_assert(std::is_trivially_destructible_v<Shard>);
Shard* map_shards() {
  void* pages = mmap(nullptr, kShards * sizeof(Shard), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw StoreError("memory store: no memory for another limit's keys");
  return static_cast<Shard*>(pages);
}

}  // namespace

Table::Table(const LimitDefinition& home, std::shared_ptr<Pool> pool, const TableOptions& options)
    : home_(home.parts),
      varies_(home.varies),
      options_(options),
      pool_(std::move(pool)),
      account_(pool_->budget),
      shards_(map_shards()) {
  fill_secret(secret_, options.fixed_secret);
  const std::lock_guard lock(pool_->mutex);
  pool_->tables.push_back(this);
}

Table::~Table() {
  {
    const std::lock_guard lock(pool_->mutex);
    std::erase(pool_->tables, this);
  }
  for (std::size_t i = 0; i < kShards; ++i) {
    shards_[i].visit_all([&](Tag, Cell cell) { release_cell(account_, cell); });
    shards_[i].release(account_);
  }
  munmap(shards_, kShards * sizeof(Shard));
}

Place Table::locate(std::string_view key) const {
  const XXH128_hash_t hash =
      XXH3_128bits_withSecret(key.data(), key.size(), secret_.data(), secret_.size());
  Shard* shard = &shards_[hash.low64 >> (64 - kShardBits)];
  const Tag tag = hash.high64 | (hash.high64 == 0 ? 1 : 0);
  shard->prefetch(tag);
  return {shard, tag};
}

// Copied field by field, a decision stays in registers from where it is worked out to where it is
// wanted. Copied whole, it is put together in memory and read back in wider pieces, for which the
// processor waits.
void assign(Decision& to, const Decision& from) {
  to.allowed = from.allowed;
  to.source = from.source;
  to.limit = from.limit;
  to.remaining = from.remaining;
  to.retry_after = from.retry_after;
  to.reset_after = from.reset_after;
  to.delay = from.delay;
}

// Flattened, so that the algorithm's step is inlined.
template <class A>
[[gnu::flatten, gnu::always_inline]] inline void Table::take_one(const Place& place,
                                                                 const Request& request,
                                                                 const typename A::Params& params,
                                                                 Instant now, Decision& decision) {
  Cell* cell = place.shard->find(place.tag);
  const Cell key = cell != nullptr ? *cell : 0;
  const auto step =
      A::take(params, load<A>(params, part_of(key, 0)), {now, request.cost, request.patience_ns});
  if (!step.decision.allowed || request.cost == 0) {
    assign(decision, step.decision);
    return;
  }
  // The common case: the key is there, has nothing new to remember, and its state gives way.
  if (cell != nullptr && (varies_ || is_record(key))) [[unlikely]]
    cell = own_state(*cell, request);
  if (cell != nullptr && memory::reserve<A>(account_, params, *cell, step.next)) {
    memory::commit<A>(account_, params, *cell, step.next);
    assign(decision, step.decision);
    return;
  }
  decide_alone(place, request, now, decision);
}

void Table::decide(const Place& place, const Request& request, Instant now, Decision& decision) {
  const std::lock_guard lock(place.shard->lock);
  const auto& parts = request.limit->parts;
  if (parts.size() > 1 || request.operation != Operation::kTake) {
    decide_alone(place, request, now, decision);
    return;
  }
  std::visit(
      [&]<class P>(const P& part) {
        take_one<typename P::Algorithm>(place, request, part.params, now, decision);
      },
      parts[0]);
}

Cell* Table::own_state(Cell& key, const Request& request) const {
  const AnyPart& asked = request.limit->parts[0];
  const bool remembers = is_record(key) && record_of(key)->kind == RecordKind::kForeign;
  if (remembers) return foreign_state(key, asked);
  return varies_ && asked != home_[0] ? nullptr : &key;
}

void Table::decide_alone(const Place& place, const Request& request, Instant now,
                         Decision& decision) {
  Member member{this, place, request};
  if (request.operation == Operation::kReset) {
    reset(place);
    member.request.operation = Operation::kTake;
    member.request.cost = 0;
  }
  std::array<Judged, kMaxParts> judged;
  decision = decide_together(std::span(&member, 1), now,
                             std::span(judged).first(request.limit->parts.size()));
}

Cell Table::key_cell(const Place& place) const {
  const Cell* cell = place.shard->find(place.tag);
  return cell != nullptr ? *cell : 0;
}

bool Table::reserve(const Place& place, const Request& request, Instant now,
                    std::span<const Judged> judged, std::span<const Tag> pinned) {
  Cell* cell = place.shard->find(place.tag);
  const bool fresh = cell == nullptr || *cell == 0;
  if (fresh && request.operation == Operation::kRefund) return true;
  if (cell == nullptr) cell = make_cell(place, now, pinned);
  const KeyParts parts = key_parts(request);
  for (std::size_t i = 0, tries = 0; cell != nullptr && i < judged.size();) {
    if (reserve_part(account_, parts, i, *cell, judged[i].change)) {
      ++i;
      tries = 0;
      continue;
    }
    const std::size_t bytes = record_bytes_for(judged[i].change);
    if (++tries > kMostTries || !make_room(place, bytes, now, pinned)) return false;
    cell = place.shard->find(place.tag);
  }
  return cell != nullptr;
}

void Table::commit(const Place& place, const Request& request, std::span<const Judged> judged) {
  Cell* cell = place.shard->find(place.tag);
  const bool fresh = cell == nullptr || *cell == 0;
  if (fresh && request.operation == Operation::kRefund) return;
  const KeyParts parts = key_parts(request);
  for (std::size_t i = 0; i < judged.size(); ++i) {
    commit_part(account_, parts, i, *cell, judged[i].change);
  }
}

KeyParts Table::key_parts(const Request& request) const {
  const auto& parts = request.limit->parts;
  Remember remember = Remember::kAsItIs;
  if (varies_ && request.operation == Operation::kTake) {
    remember = parts == home_ ? Remember::kHome : Remember::kForeign;
  }
  return {home_, parts, remember};
}

void Table::reset(const Place& place) {
  if (const Cell* cell = place.shard->find(place.tag)) erase(*place.shard, place.tag, *cell);
}

void Table::erase(Shard& shard, Tag tag, Cell cell) {
  release_cell(account_, cell);
  shard.erase(tag);
}

Cell* Table::make_cell(const Place& place, Instant now, std::span<const Tag> pinned) {
  Shard& shard = *place.shard;
  if (options_.forget) {
    // A small step of the walk that keeps keys which equal fresh from piling up.
    sweep(shard, 1, now, pinned);
    if (shard.sparse()) shard.shrink(account_);
  }
  if (shard.crowded() && !grow(shard, now)) {
    must_forget();
    if (evict(shard, place.tag, 0, now, pinned) == 0) return nullptr;
  }
  return shard.insert(place.tag);
}

bool Table::grow(Shard& shard, Instant now) {
  constexpr int kMostReclaims = 256;
  for (int reclaims = 0; !shard.grow(account_); ++reclaims) {
    if (!options_.forget || reclaims == kMostReclaims || !reclaim_elsewhere(now)) return false;
  }
  return true;
}

void Table::must_forget() const {
  if (options_.forget) return;
  throw StoreError("memory store is full: its " + std::to_string(pool_->budget.max_bytes()) +
                   " bytes are used, and nothing may be forgotten in virtual time");
}

std::size_t Table::sweep(Shard& shard, std::uint32_t lines, Instant now,
                         std::span<const Tag> pinned) {
  std::size_t freed = 0;
  bool erased = false;
  const auto forget_fresh = [&](Tag tag, Cell cell) {
    if (std::ranges::find(pinned, tag) != pinned.end()) return;
    if (!standing(home_, cell, now).fresh) return;
    freed += record_bytes(cell);
    erase(shard, tag, cell);
    erased = true;
  };
  for (std::uint32_t i = std::min(lines, shard.line_count()); i > 0; --i) {
    shard.visit_next(forget_fresh);
    while (std::exchange(erased, false)) shard.visit_again(forget_fresh);
  }
  return freed;
}

std::size_t Table::evict(Shard& shard, Tag near, std::size_t bytes, Instant now,
                         std::span<const Tag> pinned) {
  struct Candidate {
    Tag tag;
    Cell cell;
    Standing standing;
  };
  std::array<Candidate, Shard::kMostCandidates> room;
  std::size_t count = 0;
  std::size_t within_reach = 0;
  shard.visit_candidates(near, [&](Tag tag, Cell cell) {
    if (std::ranges::find(pinned, tag) != pinned.end()) return;
    const Standing one = standing(home_, cell, now);
    if (one.denies) return;
    within_reach += record_bytes(cell);
    room[count++] = {tag, cell, one};
  });
  // Nobody is forgotten for what would not suffice.
  if (count == 0 || within_reach < bytes) return 0;
  const auto candidates = std::span(room).first(count);
  std::ranges::sort(candidates, {}, [](const Candidate& one) { return one.standing.reset_after; });
  std::size_t freed = 0;
  std::size_t forgotten = 0;
  do {
    const Candidate& one = candidates[forgotten++];
    if (!one.standing.fresh) pool_->counters.evicted.fetch_add(1, std::memory_order_relaxed);
    freed += record_bytes(one.cell);
    erase(shard, one.tag, one.cell);
  } while (freed < bytes);
  return forgotten;
}

template <class Visit>
bool Table::visit_others(const Shard& here, Visit visit) {
  std::uint32_t lines = kMostLines;
  for (std::size_t i = 0; i < kShards && lines > 0; ++i) {
    const std::uint32_t next = room_at_.fetch_add(1, std::memory_order_relaxed);
    Shard& other = shards_[next % kShards];
    // A shard that somebody holds is passed over: nobody waits for two locks out of order.
    if (&other == &here || other.line_count() == 0 || !other.lock.try_lock()) continue;
    const std::lock_guard lock(other.lock, std::adopt_lock);
    const std::uint32_t share = std::min(lines, other.line_count());
    if (visit(other, share)) return true;
    lines -= share;
  }
  return false;
}

bool Table::make_room(const Place& place, std::size_t bytes, Instant now,
                      std::span<const Tag> pinned) {
  must_forget();
  std::size_t freed = 0;
  const auto sweep_one = [&](Shard& shard, std::uint32_t lines) {
    freed += sweep(shard, lines, now, pinned);
    return freed >= bytes;
  };
  const auto evict_one = [&](Shard& shard, std::uint32_t) {
    return evict(shard, place.tag, bytes - freed, now, pinned) > 0;
  };
  // First who equals fresh, then who is nearest to it; here, then elsewhere.
  Shard& here = *place.shard;
  return sweep_one(here, kMostLines) || visit_others(here, sweep_one) || reclaim_elsewhere(now) ||
         evict_one(here, 0) || visit_others(here, evict_one);
}

bool Table::reclaim_elsewhere(Instant now) {
  const std::unique_lock lock(pool_->mutex, std::try_to_lock);
  if (!lock || pool_->tables.size() < 2) return false;
  Table* other = this;
  while (other == this) other = pool_->tables[pool_->reclaim_at++ % pool_->tables.size()];
  return other->give_back(now);
}

bool Table::give_back(Instant now) {
  // Every shard gives back at once what it has of a table that has become idle, so that the bytes
  // suffice for a shard of another to grow.
  const std::size_t before = pool_->budget.used_bytes();
  std::uint32_t lines = kMostReclaimed;
  for (std::size_t i = 0; i < kShards && lines > 0; ++i) {
    Shard& shard = shards_[room_at_.fetch_add(1, std::memory_order_relaxed) % kShards];
    if (shard.line_count() == 0 || !shard.lock.try_lock()) continue;
    const std::lock_guard lock(shard.lock, std::adopt_lock);
    const std::uint32_t share = std::min(lines, shard.line_count());
    sweep(shard, share, now, {});
    if (shard.size() < shard.line_count()) shard.shrink(account_);
    lines -= share;
  }
  return pool_->budget.used_bytes() < before;
}

std::chrono::nanoseconds Table::room_after(const Place& place, Instant now) const {
  auto soonest = std::chrono::nanoseconds::max();
  place.shard->visit_candidates(place.tag, [&](Tag, Cell cell) {
    soonest = std::min(soonest, standing(home_, cell, now).retry_after);
  });
  if (soonest == std::chrono::nanoseconds::max()) return kUnknownWait;
  return std::max<std::chrono::nanoseconds>(soonest, kLeastWait);
}

void Table::judge_by(const std::vector<AnyPart>& parts) {
  // Numbers that vary settle early: what most keys are judged by should be the table's.
  constexpr std::size_t kFewKeys = 1024;
  if (parts == home_ || (varies_ && size() > kFewKeys)) return;
  for (std::size_t i = 0; i < kShards; ++i) shards_[i].lock.lock();
  home_ = parts;
  for (std::size_t i = 0; i < kShards; ++i) shards_[i].lock.unlock();
}

bool Table::all_fresh(Instant now) {
  for (std::size_t i = 0; i < kShards; ++i) {
    const std::lock_guard lock(shards_[i].lock);
    bool fresh = true;
    shards_[i].visit_all(
        [&](Tag, Cell cell) { fresh = fresh && standing(home_, cell, now).fresh; });
    if (!fresh) return false;
  }
  return true;
}

std::size_t Table::size() {
  std::size_t keys = 0;
  for (std::size_t i = 0; i < kShards; ++i) {
    const std::lock_guard lock(shards_[i].lock);
    keys += shards_[i].size();
  }
  return keys;
}

}  // namespace sluice::memory
