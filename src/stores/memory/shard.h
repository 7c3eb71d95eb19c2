#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/instant.h"
#include "core/lock.h"
#include "stores/memory/budget.h"
#include "stores/memory/cell.h"

namespace sluice::memory {

/// Half of a key's hash. A table stores no key text; the shard and the tag identify the key. Never
/// 0, which marks a free slot.
using Tag = std::uint64_t;

/// One cache line: four slots, each a tag and a cell.
struct alignas(64) Line {
  static constexpr std::uint32_t kSlots = 4;

  std::array<Tag, kSlots> tags{};
  std::array<Cell, kSlots> cells{};

  /// A bit for each slot that holds the tag. Without branches, since the processor could not
  /// predict which slot it is.
  unsigned match(Tag tag) const {
#if defined(__SSE2__)
    // SSE2 compares 32 bits at a time: a slot matches if both halves do.
    const __m128i wanted = _mm_set1_epi64x(static_cast<long long>(tag));
    const auto pair = [&](std::size_t first) {
      const __m128i slots = _mm_load_si128(reinterpret_cast<const __m128i*>(&tags[first]));
      const __m128i halves = _mm_cmpeq_epi32(slots, wanted);
      const __m128i swapped = _mm_shuffle_epi32(halves, _MM_SHUFFLE(2, 3, 0, 1));
      return static_cast<unsigned>(
          _mm_movemask_pd(_mm_castsi128_pd(_mm_and_si128(halves, swapped))));
    };
    return pair(0) | pair(2) << 2;
#else
    unsigned found = 0;
    for (unsigned i = 0; i < kSlots; ++i) found |= static_cast<unsigned>(tags[i] == tag) << i;
    return found;
#endif
  }
};

/// The id of the limit that judges a key: see LimitTable. 0 is none.
using LimitId = std::uint16_t;

/// A copy of a slot that holds a key.
struct Slot {
  Tag tag = 0;
  Cell cell = 0;
  LimitId limit = 0;
};

/// A hash table with open addressing by lines: a tag is in its home line or, if that is full, in
/// one of the next lines, with no free slot between. The home line is computed from the tag's upper
/// half for any number of lines. So a shard can grow by any factor without the keys' text; it grows
/// by a fifth, on its own, under its own lock. Behind the lines is an array with the limit of
/// each slot, which is read only where it matters.
///
/// The shard stores the slot that was found last, with half of its tag. So a hot key is found again
/// with a few well-predicted instructions, and looking for another key costs no extra line.
///
/// Every function except the prefetches needs `lock`. Pointers to cells are valid until the next
/// insert() or erase(). All but start() need its lines.
class alignas(64) Shard {
 public:
  Lock lock;

  /// Allocates the first line. Returns false if there is no memory.
  bool start(Budget& budget) { return resize(budget, 1); }

  std::uint32_t size() const { return size_; }
  std::uint32_t line_count() const { return line_count_.load(std::memory_order_relaxed); }

  /// Prefetches the home line of a tag. Needs no lock: a prefetch of an outdated address does no
  /// harm.
  void prefetch(Tag tag) const {
    __builtin_prefetch(lines_.load(std::memory_order_relaxed) + home(tag, line_count()), 1);
  }
  /// Prefetches what else a new tag needs: the limits of that line's slots, and the next line,
  /// where it is looked for if its home line is full.
  void prefetch_for_new(Tag tag) const {
    const std::uint32_t count = line_count();
    const Line* lines = lines_.load(std::memory_order_relaxed);
    const std::uint32_t i = home(tag, count);
    __builtin_prefetch(limits(lines, count) + i * Line::kSlots, 1);
    __builtin_prefetch(lines + next(i, count), 1);
  }

  /// The cell of a tag, or null. Always inlined, since that matters for the decision of a hot key.
  [[gnu::always_inline]] Cell* find(Tag tag) {
    Line* lines = lines_.load(std::memory_order_relaxed);
    if (last_half_ == half(tag)) {
      Cell* cell = reinterpret_cast<Cell*>(lines) + last_;
      if (*(cell - Line::kSlots) == tag) return cell;
    }
    if (++asked_ % kAskedUntilDue == 0) is_due_ = true;
    const std::uint32_t count = line_count();
    for (std::uint32_t i = home(tag, count);; i = next(i, count)) {
      Line& line = lines[i];
      const unsigned found = line.match(tag);
      if (found != 0) [[likely]] {
        const auto slot = static_cast<unsigned>(__builtin_ctz(found));
        last_half_ = half(tag);
        last_ = i * 2 * Line::kSlots + Line::kSlots + slot;
        return &line.cells[slot];
      }
      if (line.match(0) != 0) return nullptr;
    }
  }

  /// The limit of the slot with this cell.
  LimitId& limit_of(const Cell* cell) {
    Line* lines = lines_.load(std::memory_order_relaxed);
    const auto word = static_cast<std::size_t>(cell - reinterpret_cast<Cell*>(lines));
    return limits(lines, line_count())[word / 8 * Line::kSlots + word % 8 - Line::kSlots];
  }

  /// True if one more key would leave the shard too full.
  bool crowded() const { return size_ + 1 > line_count() * kMostPerLine; }

  /// Grows by a fifth. Returns false if there is no room.
  bool grow(Budget& budget);
  /// What grow() allocates.
  std::size_t grown_bytes() const { return block_bytes(grown_count()); }

  /// True if most lines have become useless; shrink() frees them.
  bool sparse() const { return line_count() >= kWorthShrinking && size_ < line_count(); }
  /// Frees the lines that the shard can do without until it grows.
  void shrink(Budget& budget);

  /// A new cell, 0, for a tag that is not in the shard. REQUIRES: not crowded().
  Cell* insert(Tag tag, LimitId limit);

  /// The cell of a slot in the home line of `tag` for which `gives_way` is true, or null.
  template <class GivesWay>
  Cell* find_in_home(Tag tag, GivesWay gives_way) {
    const std::uint32_t count = line_count();
    const std::uint32_t i = home(tag, count);
    Line* lines = lines_.load(std::memory_order_relaxed);
    for (unsigned s = 0; s < Line::kSlots; ++s) {
      if (lines[i].tags[s] == 0) continue;
      const LimitId limit = limits(lines, count)[i * Line::kSlots + s];
      if (gives_way(Slot{lines[i].tags[s], lines[i].cells[s], limit})) return &lines[i].cells[s];
    }
    return nullptr;
  }
  /// Gives a slot of its home line to `tag`, which is not in the shard, with a cell of 0. The
  /// caller has released the slot's cell, and sees to its limit.
  static void take_over(Cell* cell, Tag tag) {
    *(cell - Line::kSlots) = tag;
    *cell = 0;
  }

  /// Removes a tag that is in the shard. The caller has released its cell and limit.
  void erase(Tag tag);

  static constexpr std::uint32_t kCandidateLines = 4;
  static constexpr std::uint32_t kMostCandidateLines = 128;
  static constexpr std::uint32_t kMostCandidates = kCandidateLines * Line::kSlots;

  /// Visits the keys near the place of `tag`: those of the first lines from its home and, until
  /// `visit` has returned true, of the next ones.
  template <class Visit>
  void visit_candidates(Tag tag, Visit visit) const {
    const std::uint32_t count = line_count();
    const std::uint32_t most = std::min(count, kMostCandidateLines);
    std::uint32_t i = home(tag, count);
    bool found = false;
    for (std::uint32_t n = 0; n < most && (n < kCandidateLines || !found); ++n) {
      visit_line(i, [&](const Slot& slot) {
        if (visit(slot)) found = true;
      });
      i = next(i, count);
    }
  }

  /// Visits the next line of a walk through all lines, which continues from call to call.
  template <class Visit>
  void visit_next(Visit visit) {
    sweep_at_ = next(sweep_at_, line_count());
    visit_line(sweep_at_, visit);
  }

  /// Visits the last line of visit_next() again: erasing keys there may have moved others into it.
  template <class Visit>
  void visit_again(Visit visit) const {
    if (sweep_at_ < line_count()) visit_line(sweep_at_, visit);
  }

  template <class Visit>
  void visit_all(Visit visit) const {
    for (std::uint32_t i = 0; i < line_count(); ++i) visit_line(i, visit);
  }

  /// Visits the keys whose tags' upper halves are in [from, to). Moving keys changes no tag, so a
  /// walk in steps, each with the lock, visits every key once that is there all the time.
  template <class Visit>
  void visit_range(std::uint64_t from, std::uint64_t to, Visit visit) const {
    const std::uint32_t count = line_count();
    const Line* lines = lines_.load(std::memory_order_relaxed);
    std::uint32_t i = home(from << 32, count);
    const std::uint32_t homes = home((to - 1) << 32, count) - i + 1;
    for (std::uint32_t n = 1; n <= count; ++n, i = next(i, count)) {
      visit_line(i, [&](const Slot& slot) {
        if (slot.tag >> 32 >= from && slot.tag >> 32 < to) visit(slot);
      });
      if (n >= homes && lines[i].match(0) != 0) return;
    }
  }

  /// How many keys there is room for in lines of so many bytes.
  static constexpr std::size_t most_keys(std::size_t bytes) {
    return bytes / block_bytes(1) * kMostPerLine;
  }
  /// Makes room for so many keys, if the budget has it.
  void reserve(Budget& budget, std::uint32_t keys) {
    const std::uint32_t count = (keys + kMostPerLine - 1) / kMostPerLine;
    if (count > line_count()) resize(budget, count);
  }

  /// Where the cells' records are. It refers to the shard, and is valid as long.
  Records records(Budget& budget) { return {budget, records_, is_due_}; }
  /// If a record found no place that there is room for, makes place for it, or for so many bytes.
  /// Moves all records. Returns false if there was place, or if there is no memory.
  bool make_place(Budget& budget, std::size_t bytes = 0) {
    return records(budget).lacks_place() && renew_records(budget, bytes);
  }
  /// Frees what has been freed of the records, if that is much. Moves all records.
  void shrink_records(Budget& budget) {
    if (records(budget).is_wasteful()) renew_records(budget, 0);
  }

  /// Frees the lines; the caller has released the cells.
  void release(Budget& budget);

  /// Whether it is time for Table::sweep_if_due(): find() has been asked some times for another tag
  /// than before, or much of the records has been freed.
  bool is_due() const { return is_due_; }

  /// What Table::sweep_if_due() has seen lately.
  struct Sample {
    Instant since = 0;
    std::uint32_t keys = 0;
    std::uint32_t fresh = 0;
  };
  Sample sample;
  void clear_due() { is_due_ = false; }

 private:
  static constexpr std::uint32_t kMostPerLine = 3;
  static constexpr std::uint32_t kWorthShrinking = 16;
  static constexpr std::uint32_t kAskedUntilDue = 256;

  static std::uint32_t half(Tag tag) { return static_cast<std::uint32_t>(tag); }
  static std::uint32_t home(Tag tag, std::uint32_t line_count) {
    return static_cast<std::uint32_t>(((tag >> 32) * line_count) >> 32);
  }
  static std::uint32_t next(std::uint32_t i, std::uint32_t line_count) {
    return i + 1 < line_count ? i + 1 : 0;
  }
  static LimitId* limits(const Line* lines, std::uint32_t count) {
    return reinterpret_cast<LimitId*>(const_cast<Line*>(lines + count));
  }
  static constexpr std::size_t block_bytes(std::uint32_t count) {
    return count * (sizeof(Line) + Line::kSlots * sizeof(LimitId));
  }
  // A fifth more, in as many pages as come nearest to that: with more, or rounded up, a key would
  // take more than 30 bytes after the shard has grown.
  std::uint32_t grown_count() const {
    const std::uint32_t count = line_count() + std::max(1u, line_count() / 5);
    const std::size_t bytes = block_bytes(count);
    if (bytes < Budget::kPageBytes) return count;
    const std::size_t pages = (bytes + Budget::kPageBytes / 2 - 1) / Budget::kPageBytes;
    const auto nearest = static_cast<std::uint32_t>(pages * Budget::kPageBytes / block_bytes(1));
    return nearest > line_count() ? nearest : count;
  }

  // Passes copies, since the visitor may erase keys.
  template <class Visit>
  void visit_line(std::uint32_t i, Visit visit) const {
    const Line* lines = lines_.load(std::memory_order_relaxed);
    const Line line = lines[i];
    std::array<LimitId, Line::kSlots> ids;
    std::copy_n(limits(lines, line_count()) + i * Line::kSlots, Line::kSlots, ids.begin());
    for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
      if (line.tags[slot] != 0) visit(Slot{line.tags[slot], line.cells[slot], ids[slot]});
    }
  }

  bool renew_records(Budget& budget, std::size_t bytes);
  bool resize(Budget& budget, std::uint32_t count);
  static Cell* place(Line* lines, std::uint32_t count, Tag tag, LimitId limit);

  std::atomic<Line*> lines_{nullptr};
  Records::Block* records_ = nullptr;
  std::atomic<std::uint32_t> line_count_{0};
  std::uint32_t size_ = 0;
  std::uint32_t last_half_ = 0;        // Half of the tag that was found last.
  std::uint32_t last_ = Line::kSlots;  // The index of its cell, in words from the first line.
  std::uint32_t sweep_at_ = 0;
  std::uint16_t asked_ = 0;  // How often for another tag than before, modulo 2^16.
  bool is_due_ = false;
};
static_assert(sizeof(Shard) == 64);

}  // namespace sluice::memory
