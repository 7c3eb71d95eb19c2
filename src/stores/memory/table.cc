#include "stores/memory/table.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/assign.h"
#include "core/block.h"
#include "core/key_hash.h"
#include "core/prefetch.h"
#include "stores/memory/group.h"

namespace sluice::memory {
namespace {

// How often one request may make room for a part of its state.
constexpr std::size_t kMostTries = 4;

// Zeroed memory is an array of empty shards.
static_assert(std::is_trivially_destructible_v<Shard>);
Shard* map_shards() {
  void* pages = mmap(nullptr, Table::kShards * sizeof(Shard), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw StoreError("memory store: no memory for another limit's keys");
  return static_cast<Shard*>(pages);
}

}  // namespace

Table::Table(const LimitDefinition& home, std::shared_ptr<Pool> pool, const TableOptions& options)
    : home_(home.parts),
      varies_(home.varies),
      keeps_records_(home.parts.size() > 1 || std::visit(
                                                  []<class P>(const P&) {
                                                    return kIsRing<typename P::Algorithm> ||
                                                           kIsPermits<typename P::Algorithm>;
                                                  },
                                                  home.parts[0])),
      options_(options),
      pool_(std::move(pool)),
      account_(pool_->budget),
      shards_(map_shards()) {
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

Place Table::place_of(std::string_view key) const {
  return place_of(hash_key(key, options_.secret));
}

Place Table::locate(std::string_view key) const {
  return locate(hash_key(key, options_.secret));
}

void Table::fetch_record(Place place) const {
  constexpr std::size_t kFetched = 256;  // A ring of a dozen.
  // It is not worth a wait.
  if (!keeps_records_ || !place.shard->lock.try_lock()) return;
  const std::lock_guard lock(place.shard->lock, std::adopt_lock);
  const Cell key = key_cell(place);
  if (!is_record(key)) return;
  prefetch(record_of(key), kFetched);
}

// One state, of whatever kind, judged by whichever numbers.
template <class A>
[[gnu::flatten]] void Table::step_one(Place place, const Request& request, Instant now,
                                      Decision& decision) {
  const auto& params = std::get_if<Part<A>>(request.limit->parts.data())->params;
  Cell* cell = place.shard->find(place.tag);
  const Cell key = cell != nullptr ? *cell : 0;
  if (is_blocked(key)) [[unlikely]]
    return decide_alone(place, request, now, decision);
  const auto step = apply<A>(request.operation, params, load<A>(params, part_of(key, 0)),
                             {.now = now,
                              .cost = request.cost,
                              .patience_ns = request.patience_ns,
                              .permit = request.permit});
  if (!step.decision.allowed || request.cost == 0) return assign(decision, step.decision);
  // The common case: the key is there, has nothing new to remember, and its state gives way.
  if (cell != nullptr && (varies_ || is_record(key))) [[unlikely]]
    cell = own_state(*cell, request);
  if (cell == nullptr || !memory::reserve<A>(account_, params, *cell, step.next)) {
    return decide_alone(place, request, now, decision);
  }
  memory::commit<A>(account_, params, *cell, step.next);
  assign(decision, step.decision);
}

// The commonest case: what the state was and what it becomes fit the key's cell. All else is left
// to a call that is made last, so that few registers have to be saved: each is a store more for
// which the next to take the lock would wait. REQUIRES: the numbers do not vary.
template <class A>
[[gnu::flatten]] void Table::take_one(Place place, const Request& request, Instant now,
                                      Decision& decision) {
  const auto& params = std::get_if<Part<A>>(request.limit->parts.data())->params;
  Cell* cell = place.shard->find(place.tag);
  if (cell == nullptr || is_record(*cell)) [[unlikely]] {
    return step_one<A>(place, request, now, decision);
  }
  const auto step = A::take(params, load<A>(params, *cell),
                            {.now = now, .cost = request.cost, .patience_ns = request.patience_ns});
  if (!step.decision.allowed || request.cost == 0) return assign(decision, step.decision);
  const auto packed = pack<A>(params, step.next);
  if (!packed) [[unlikely]]
    return step_one<A>(place, request, now, decision);
  assign(decision, step.decision);
  *cell = *packed;
}

void Table::decide(Place place, const Request& request, Instant now, Decision& decision) {
  const auto& parts = request.limit->parts;
  if (parts.size() > 1 || request.operation != Operation::kTake) [[unlikely]] {
    return decide_other(place, request, now, decision);
  }
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (!kIsRing<A> && !kIsPermits<A>) {
          if (!varies_) return take_one<A>(place, request, now, decision);
        }
        step_one<A>(place, request, now, decision);
      },
      parts[0]);
}

[[gnu::flatten]] void Table::decide_one(const Request& request, Instant now, const Clock& clock,
                                        Decision& decision) {
  // Order matters to speed: hash, prefetch, and only then the clock and the first look at a line.
  const Place place = locate(request.key);
  // What a release frees is free whatever the time: that need not be read exactly. Only the answer
  // may be that of a tick of the system ago: `allowed` for a permit that has lapsed since.
  if (now == kStoreTime) [[unlikely]] {
    now = request.operation == Operation::kRelease ? clock.now_cheaply() : clock.now();
  }
  const std::lock_guard lock(place.shard->lock);
  decide(place, request, now, decision);
}

// Permits come and go as often, and have no `&` to be joined by.
void Table::decide_other(Place place, const Request& request, Instant now, Decision& decision) {
  const Operation operation = request.operation;
  if (operation != Operation::kRenew && operation != Operation::kRelease) {
    return decide_alone(place, request, now, decision);
  }
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (LendingAlgorithm<A>) {
          step_one<A>(place, request, now, decision);
        } else {
          decide_alone(place, request, now, decision);
        }
      },
      request.limit->parts[0]);
}

Cell* Table::own_state(Cell& key, const Request& request) const {
  const AnyPart& asked = request.limit->parts[0];
  const bool remembers = is_record(key) && record_of(key)->kind == RecordKind::kForeign;
  if (remembers) return foreign_state(key, asked);
  return varies_ && asked != home_[0] ? nullptr : &key;
}

void Table::decide_alone(Place place, const Request& request, Instant now, Decision& decision) {
  Member member{.table = this, .place = place, .request = request};
  std::array<Judged, kMaxParts> room;
  const auto judged = std::span(room).first(request.limit->parts.size());
  switch (request.operation) {
    case Operation::kTakeUpTo:
      decision = decide_up_to(member, now, judged);
      return;
    case Operation::kReset:
      reset(place);
      member.request.operation = Operation::kTake;
      member.request.cost = 0;
      break;
    case Operation::kBlock:
      member.request.cost = 1;  // It changes something.
      break;
    default:
      break;
  }
  decision = decide_together(std::span(&member, 1), now, judged);
}

Cell Table::key_cell(Place place) const {
  const Cell* cell = place.shard->find(place.tag);
  return cell != nullptr ? *cell : 0;
}

bool Table::reserve(Place place, const Request& request, Instant now,
                    std::span<const Judged> judged, std::span<const Tag> pinned) {
  Cell* cell = place.shard->find(place.tag);
  const bool fresh = cell == nullptr || *cell == 0;
  if (fresh && request.operation == Operation::kRefund) return true;
  if (cell == nullptr) cell = make_cell(place, now, pinned);
  const bool blocks = request.operation == Operation::kBlock;
  const KeyParts parts = key_parts(request);
  for (std::size_t i = 0, tries = 0; cell != nullptr && i < (blocks ? 1 : judged.size());) {
    if (blocks ? reserve_block(account_, *cell)
               : reserve_part(account_, parts, i, *cell, judged[i].change)) {
      ++i;
      tries = 0;
      continue;
    }
    const std::size_t bytes =
        blocks ? sizeof(BlockedRecord) : record_bytes_for(judged[i].change, *cell, i);
    if (++tries > kMostTries || !make_room(place, bytes, now, pinned)) return false;
    cell = place.shard->find(place.tag);
  }
  return cell != nullptr;
}

Instant Table::commit(Place place, const Request& request, Instant now,
                      std::span<const Judged> judged) {
  Cell* cell = place.shard->find(place.tag);
  const bool fresh = cell == nullptr || *cell == 0;
  if (fresh && request.operation == Operation::kRefund) return 0;
  if (request.operation == Operation::kBlock) {
    block_key(*cell, block_until(blocked_until(*cell), now, request.duration_ns));
    return blocked_until(*cell);
  }
  end_block(account_, *cell, now);
  const KeyParts parts = key_parts(request);
  for (std::size_t i = 0; i < judged.size(); ++i) {
    commit_part(account_, parts, i, *cell, judged[i].change);
  }
  return blocked_until(*cell);
}

KeyParts Table::key_parts(const Request& request) const {
  const auto& parts = request.limit->parts;
  Remember remember = Remember::kAsItIs;
  if (varies_ && request.operation != Operation::kRefund) {
    remember = parts == home_ ? Remember::kHome : Remember::kForeign;
  }
  return {home_, parts, remember};
}

void Table::reset(Place place) {
  if (const Cell* cell = place.shard->find(place.tag)) erase(*place.shard, place.tag, *cell);
}

void Table::erase(Shard& shard, Tag tag, Cell cell) {
  release_cell(account_, cell);
  shard.erase(tag);
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
