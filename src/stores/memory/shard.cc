#include "stores/memory/shard.h"

#include <algorithm>
#include <cassert>
#include <memory>

namespace sluice::memory {

Cell* Shard::place(Line* lines, std::uint32_t count, Tag tag) {
  for (std::uint32_t i = home(tag, count);; i = next(i, count)) {
    const unsigned free = lines[i].match(0);
    if (free == 0) continue;
    const auto slot = static_cast<unsigned>(__builtin_ctz(free));
    lines[i].tags[slot] = tag;
    lines[i].cells[slot] = 0;
    return &lines[i].cells[slot];
  }
}

bool Shard::grow(Account& account) {
  const std::uint32_t count = line_count() + std::max(1u, line_count() / 4);
  return count < (1u << 30) && resize(account, count);
}

void Shard::shrink(Account& account) {
  if (size_ == 0) {
    release(account);
  } else {
    resize(account, size_ / 2 + 1);
  }
}

bool Shard::resize(Account& account, std::uint32_t count) {
  const std::uint32_t old_count = line_count();
  void* block = account.allocate(count * sizeof(Line), alignof(Line), count == 1);
  if (block == nullptr) return false;
  auto* lines = static_cast<Line*>(block);
  std::uninitialized_value_construct_n(lines, count);
  visit_all([&](Tag tag, Cell cell) { *place(lines, count, tag) = cell; });
  Line* old = lines_.load(std::memory_order_relaxed);
  lines_.store(lines, std::memory_order_relaxed);
  line_count_.store(count, std::memory_order_relaxed);
  last_ = Line::kSlots;
  if (old != nullptr) account.release(old, old_count * sizeof(Line), old_count == 1);
  return true;
}

Cell* Shard::insert(Tag tag) {
  assert(!crowded());
  ++size_;
  return place(lines_.load(std::memory_order_relaxed), line_count(), tag);
}

void Shard::erase(Tag tag) {
  Line* lines = lines_.load(std::memory_order_relaxed);
  const std::uint32_t count = line_count();
  std::uint32_t hole = home(tag, count);
  while (lines[hole].match(tag) == 0) hole = next(hole, count);
  auto slot = static_cast<unsigned>(__builtin_ctz(lines[hole].match(tag)));
  bool was_full = lines[hole].match(0) == 0;
  lines[hole].tags[slot] = 0;
  --size_;

  // While the line was full, tags may have moved on to the next lines. There must be no free slot
  // between a tag's home line and its place, so the first tag that had passed the hole moves back
  // into it.
  std::uint32_t i = hole;
  while (was_full) {
    i = next(i, count);
    if (i == hole) return;
    Line& line = lines[i];
    const bool full = line.match(0) == 0;
    const std::uint32_t gap = (i + count - hole) % count;
    for (unsigned s = 0; s < Line::kSlots; ++s) {
      if (line.tags[s] == 0) continue;
      const std::uint32_t travelled = (i + count - home(line.tags[s], count)) % count;
      if (travelled < gap) continue;
      lines[hole].tags[slot] = line.tags[s];
      lines[hole].cells[slot] = line.cells[s];
      line.tags[s] = 0;
      hole = i;
      slot = s;
      break;
    }
    was_full = full;
  }
}

void Shard::release(Account& account) {
  Line* lines = lines_.load(std::memory_order_relaxed);
  if (lines == nullptr) return;
  account.release(lines, line_count() * sizeof(Line), line_count() == 1);
  lines_.store(nullptr, std::memory_order_relaxed);
  line_count_.store(0, std::memory_order_relaxed);
  size_ = 0;
}

}  // namespace sluice::memory
