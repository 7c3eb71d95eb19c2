#include "stores/memory/numbers_table.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <mutex>
#include <utility>
#include <variant>

namespace sluice::memory {
namespace {

template <class Number>
MostUsed for_each_part(const std::vector<AnyPart>& parts, Number number) {
  MostUsed numbers;
  for (const AnyPart& part : parts) {
    // More bits than an expression can say, for snapshots, are cut off.
    const auto used = static_cast<std::uint64_t>(std::visit(number, part));
    const int cut = std::max(0, static_cast<int>(std::bit_width(used)) - 52);
    numbers.push_back(static_cast<std::int64_t>(used >> cut << cut));
  }
  return numbers;
}

}  // namespace

MostUsed most_used_of(const std::vector<AnyPart>& parts) {
  return for_each_part(
      parts, []<class P>(const P& part) { return most_used<typename P::Algorithm>(part.params); });
}

MostUsed smallest_used(const std::vector<AnyPart>& parts) {
  return MostUsed(parts.size(), 0);
}

MostUsed largest_used(const std::vector<AnyPart>& parts) {
  return for_each_part(
      parts, []<class P>(const P&) { return sluice::largest_used<typename P::Algorithm>(); });
}

NumbersTable::~NumbersTable() {
  for (auto& chunk : chunks_) delete chunk.load(std::memory_order_relaxed);
}

LimitId& NumbersTable::list_of(LimitId space, const MostUsed& numbers) {
  std::uint64_t hash = space;
  for (const std::int64_t used : numbers) {
    hash = (hash ^ static_cast<std::uint64_t>(used)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
  }
  return lists_[hash % lists_.size()];
}

bool NumbersTable::equals(LimitId id, const MostUsed& numbers) const {
  const Chunk& own = *chunk(id);
  return std::equal(numbers.begin(), numbers.end(), numbers_of(own, id, 0),
                    numbers_of(own, id, 0) + own.parts);
}

// Those of keys leave a quarter of the room to spaces, and spaces without a name an eighth to
// those with one: so a client that sends ever-new numbers or expressions leaves room for others.
bool NumbersTable::add_chunk(std::size_t parts, For whom) {
  const std::size_t kept = kMostChunks / 8 * static_cast<std::size_t>(whom);
  if (chunk_count_ + kept >= kMostChunks) return false;
  const std::size_t first = kFirst + chunk_count_ * kRowsAtOnce;
  auto* added = new Chunk(parts);
  for (std::size_t i = kRowsAtOnce; i > 0; --i) {
    added->rows[i - 1].next = std::exchange(free_[parts], static_cast<LimitId>(first + i - 1));
  }
  chunks_[chunk_count_++].store(added, std::memory_order_release);
  return true;
}

LimitId NumbersTable::add_key(LimitId space, const MostUsed& numbers, For whom) noexcept {
  const std::lock_guard lock(lock_);
  LimitId& list = list_of(space, numbers);
  for (LimitId id = list; id != 0; id = row(id).next) {
    if (row(id).space != space || !equals(id, numbers)) continue;
    assert(whom == For::kKey);
    if (row(id).keys != kOfSpace) ++row(id).keys;
    return id;
  }
  LimitId& free = free_[numbers.size()];
  if (free == 0 && !add_chunk(numbers.size(), whom)) return 0;
  const LimitId id = std::exchange(free, row(free).next);
  std::ranges::copy(numbers, numbers_of(*chunk(id), id, 0));
  Row& added = row(id);
  added.space = space;
  added.next = std::exchange(list, id);
  added.keys = whom == For::kKey ? 1 : kOfSpace;
  return id;
}

void NumbersTable::add_key(LimitId id) noexcept {
  if (row(id).keys == kOfSpace) return;
  const std::lock_guard lock(lock_);
  ++row(id).keys;
}

void NumbersTable::remove_key(LimitId id) noexcept {
  // In a child of fork() a thread that is not there may hold the lock.
  if (row(id).keys == kOfSpace || generation_ != fork_generation()) return;
  const std::lock_guard lock(lock_);
  if (--row(id).keys == 0) unlink_row(id);
}

void NumbersTable::free_row(LimitId id) noexcept {
  const std::lock_guard lock(lock_);
  unlink_row(id);
}

void NumbersTable::unlink_row(LimitId id) {
  const Chunk& own = *chunk(id);
  const MostUsed numbers(numbers_of(own, id, 0), numbers_of(own, id, 0) + own.parts);
  LimitId* at = &list_of(row(id).space, numbers);
  while (*at != id) at = &row(*at).next;
  *at = row(id).next;
  row(id).next = std::exchange(free_[own.parts], id);
}

}  // namespace sluice::memory
