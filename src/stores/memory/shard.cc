#include "stores/memory/shard.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <span>

namespace sluice::memory {

Cell* Shard::place(Line* lines, std::uint32_t count, Tag tag, LimitId limit) {
  for (std::uint32_t i = home(tag, count);; i = next(i, count)) {
    const unsigned free = lines[i].match(0);
    if (free == 0) continue;
    const auto slot = static_cast<unsigned>(__builtin_ctz(free));
    lines[i].tags[slot] = tag;
    lines[i].cells[slot] = 0;
    limits(lines, count)[i * Line::kSlots + slot] = limit;
    return &lines[i].cells[slot];
  }
}

bool Shard::grow(Budget& budget) {
  return grown_count() < (1u << 29) && resize(budget, grown_count());
}

void Shard::shrink(Budget& budget) {
  const std::uint32_t count = size_ * 3 / 8 + 1;
  if (count < line_count()) resize(budget, count);
}

bool Shard::resize(Budget& budget, std::uint32_t count) {
  const std::uint32_t old_count = line_count();
  // As many lines as the block has room for.
  count = static_cast<std::uint32_t>(Budget::lines_bytes(block_bytes(count)) / block_bytes(1));
  void* block = budget.allocate_lines(block_bytes(count));
  if (block == nullptr) return false;
  auto* lines = static_cast<Line*>(block);
  std::uninitialized_value_construct_n(lines, count);
  visit_all([&](const Slot& slot) { *place(lines, count, slot.tag, slot.limit) = slot.cell; });
  Line* old = lines_.load(std::memory_order_relaxed);
  lines_.store(lines, std::memory_order_relaxed);
  line_count_.store(count, std::memory_order_relaxed);
  last_ = Line::kSlots;
  if (old != nullptr) budget.release_lines(old, block_bytes(old_count));
  return true;
}

Cell* Shard::insert(Tag tag, LimitId limit) {
  assert(!crowded());
  ++size_;
  return place(lines_.load(std::memory_order_relaxed), line_count(), tag, limit);
}

void Shard::erase(Tag tag) {
  Line* lines = lines_.load(std::memory_order_relaxed);
  const std::uint32_t count = line_count();
  LimitId* ids = limits(lines, count);
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
      ids[hole * Line::kSlots + slot] = ids[i * Line::kSlots + s];
      line.tags[s] = 0;
      hole = i;
      slot = s;
      break;
    }
    was_full = full;
  }
}

bool Shard::renew_records(Budget& budget, std::size_t bytes) {
  return records(budget).renew(bytes, [&](auto visit) {
    const std::span lines(lines_.load(std::memory_order_relaxed), line_count());
    for (Line& line : lines) {
      for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
        if (line.tags[slot] != 0) visit(line.cells[slot]);
      }
    }
  });
}

void Shard::release(Budget& budget) {
  records(budget).free_block();
  Line* lines = lines_.load(std::memory_order_relaxed);
  if (lines == nullptr) return;
  budget.release_lines(lines, block_bytes(line_count()));
  lines_.store(nullptr, std::memory_order_relaxed);
  line_count_.store(0, std::memory_order_relaxed);
  size_ = 0;
}

}  // namespace sluice::memory
