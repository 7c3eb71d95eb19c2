#include "stores/memory/numbers_table.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <string_view>
#include <utility>
#include <variant>

#include "core/key_hash.h"

namespace sluice::memory {
namespace {

// More bits than an expression can say, for snapshots, are cut off.
constexpr int kBits = 52;
constexpr int kRoundedBits = 7;

std::int64_t floor_of(std::int64_t used, int bits) {
  const int cut =
      std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(used))) - bits);
  return used >> cut << cut;
}

template <class Number>
MostUsed for_each_part(const std::vector<AnyPart>& parts, Number number) {
  MostUsed numbers;
  for (const AnyPart& part : parts) numbers.push_back(floor_of(std::visit(number, part), kBits));
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
  const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()),
                               numbers.size() * sizeof numbers[0]);
  return lists_[(hash_key(bytes, secret_).low + space) % lists_.size()];
}

LimitId& NumbersTable::free_rows(Use use, std::size_t parts) {
  return free_[static_cast<std::size_t>(use)][parts];
}

bool NumbersTable::equals(LimitId id, const MostUsed& numbers) const {
  const Chunk& own = *chunk(id);
  return std::equal(numbers.begin(), numbers.end(), numbers_of(own, id, 0),
                    numbers_of(own, id, 0) + own.parts);
}

bool NumbersTable::add_chunk(Use use, std::size_t parts) {
  const auto index = static_cast<std::size_t>(use);
  if (chunk_count_ == kMostChunks || chunks_of_use_[index] == kMostOfUse[index]) return false;
  ++chunks_of_use_[index];
  const std::size_t first = kFirst + chunk_count_ * kRowsAtOnce;
  auto* added = new Chunk(use, parts);
  for (std::size_t i = kRowsAtOnce; i > 0; --i) {
    added->rows[i - 1].next =
        std::exchange(free_rows(use, parts), static_cast<LimitId>(first + i - 1));
  }
  chunks_[chunk_count_++].store(added, std::memory_order_release);
  return true;
}

LimitId NumbersTable::find_row(LimitId space, const MostUsed& numbers) {
  LimitId id = list_of(space, numbers);
  while (id != 0 && (row(id).space != space || !equals(id, numbers))) id = row(id).next;
  return id;
}

LimitId NumbersTable::take_row(Use use, LimitId space, const MostUsed& numbers) {
  LimitId& free = free_rows(use, numbers.size());
  if (free == 0 && !add_chunk(use, numbers.size())) return 0;
  const LimitId id = std::exchange(free, row(free).next);
  std::ranges::copy(numbers, numbers_of(*chunk(id), id, 0));
  row(id).space = space;
  row(id).next = std::exchange(list_of(space, numbers), id);
  return id;
}

void NumbersTable::unlink_row(LimitId id) {
  const Chunk& own = *chunk(id);
  const MostUsed numbers(numbers_of(own, id, 0), numbers_of(own, id, 0) + own.parts);
  LimitId* at = &list_of(row(id).space, numbers);
  while (*at != id) at = &row(*at).next;
  *at = row(id).next;
  row(id).next = std::exchange(free_rows(own.use, own.parts), id);
}

LimitId NumbersTable::add_key(LimitId space, const MostUsed& numbers) noexcept {
  const std::lock_guard lock(lock_);
  LimitId id = find_row(space, numbers);
  if (id == 0) id = take_row(Use::kKeys, space, numbers);
  if (id == 0) {
    MostUsed rounded = numbers;
    for (std::int64_t& used : rounded) used = floor_of(used, kRoundedBits);
    id = find_row(space, rounded);
    if (id == 0) id = take_row(Use::kRounded, space, rounded);
  }
  if (id != 0 && !is_of_space(id)) ++row(id).keys;
  return id;
}

void NumbersTable::add_key(LimitId id) noexcept {
  if (is_of_space(id)) return;
  const std::lock_guard lock(lock_);
  ++row(id).keys;
}

void NumbersTable::remove_key(LimitId id) noexcept {
  // In a child of fork() a thread that is not there may hold the lock.
  if (is_of_space(id) || generation_ != fork_generation()) return;
  const std::lock_guard lock(lock_);
  if (--row(id).keys == 0) unlink_row(id);
}

LimitId NumbersTable::add_row(LimitId space, const MostUsed& numbers) noexcept {
  const std::lock_guard lock(lock_);
  return take_row(Use::kSpaces, space, numbers);
}

void NumbersTable::free_row(LimitId id) noexcept {
  const std::lock_guard lock(lock_);
  unlink_row(id);
}

}  // namespace sluice::memory
