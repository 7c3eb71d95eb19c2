#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/lock.h"
#include "stores/memory/budget.h"
#include "stores/memory/cell.h"

namespace sluice::memory {

/// Half of a key's hash. A table keeps no key text: the tag and the shard are the key. Never 0,
/// which marks a free slot.
using Tag = std::uint64_t;

/// One cache line: four slots, each a tag and a cell.
struct alignas(64) Line {
  static constexpr std::uint32_t kSlots = 4;

  std::array<Tag, kSlots> tags{};
  std::array<Cell, kSlots> cells{};

  /// A bit for each slot that holds the tag. Without branches: which slot it is, if any, nobody
  /// could predict.
  unsigned match(Tag tag) const {
#if defined(__SSE2__)
    // SSE2 compares 32 bits at a time: a tag is there where both of its halves are.
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

/// Open addressing by lines: a tag stands in its home line or, where that is full, in one of the
/// next, with no free slot between. The home line is a share of the tag's upper half, so a shard
/// grows by any factor without the keys' text, and alone: by a quarter, with its own lock held.
///
/// The slot found last is remembered with a half of its tag, in the shard's own bytes: a hot key is
/// found again in a few steps that the processor foresees, and a look elsewhere reads no more
/// lines.
///
/// Every function but prefetch() needs `lock`. Pointers to cells are good until the next insert or
/// erase.
class alignas(32) Shard {
 public:
  Lock lock;

  std::uint32_t size() const { return size_; }
  std::uint32_t line_count() const { return line_count_.load(std::memory_order_relaxed); }

  /// Asks the processor for the line where a tag would stand. Needs no lock: the address may be out
  /// of date, which a prefetch does not mind.
  void prefetch(Tag tag) const {
    const Line* lines = lines_.load(std::memory_order_relaxed);
    if (lines != nullptr) __builtin_prefetch(lines + home(tag, line_count()), 1);
  }

  /// The cell of a tag, or null. Inlined wherever it is called, which a hot key's decision feels.
  [[gnu::always_inline]] Cell* find(Tag tag) {
    Line* lines = lines_.load(std::memory_order_relaxed);
    if (lines == nullptr) return nullptr;
    if (last_half_ == half(tag)) {
      Cell* cell = reinterpret_cast<Cell*>(lines) + last_;
      if (*(cell - Line::kSlots) == tag) return cell;
    }
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

  /// True if one more key would leave the shard too full.
  bool crowded() const { return size_ + 1 > line_count() * kMostPerLine; }

  /// Grows by a quarter; the first line is had whatever the budget. False where there is no room.
  bool grow(Account& account);

  /// True if most of the lines have become useless; shrink() gives them back.
  bool sparse() const { return line_count() >= kWorthShrinking && size_ < line_count(); }
  void shrink(Account& account);

  /// A new cell, 0, for a tag that is not there. REQUIRES: not crowded().
  Cell* insert(Tag tag);

  /// Forgets a tag that is there; the caller has released its cell.
  void erase(Tag tag);

  static constexpr std::uint32_t kCandidateLines = 4;
  static constexpr std::uint32_t kMostCandidates = kCandidateLines * Line::kSlots;

  /// The keys near the place of `tag`.
  template <class Visit>
  void visit_candidates(Tag tag, Visit visit) const {
    const std::uint32_t count = line_count();
    std::uint32_t i = home(tag, count);
    for (std::uint32_t n = 0; n < std::min(count, kCandidateLines); ++n, i = next(i, count)) {
      visit_line(i, visit);
    }
  }

  /// The next line of a walk through all lines that goes on from call to call.
  template <class Visit>
  void visit_next(Visit visit) {
    if (line_count() == 0) return;
    sweep_at_ = sweep_at_ + 1 < line_count() ? sweep_at_ + 1 : 0;
    visit_line(sweep_at_, visit);
  }

  /// The line that visit_next() has visited last: what was erased there may have brought others.
  template <class Visit>
  void visit_again(Visit visit) const {
    if (sweep_at_ < line_count()) visit_line(sweep_at_, visit);
  }

  template <class Visit>
  void visit_all(Visit visit) const {
    for (std::uint32_t i = 0; i < line_count(); ++i) visit_line(i, visit);
  }

  /// Frees the lines; the caller has released the cells.
  void release(Account& account);

 private:
  static constexpr std::uint32_t kMostPerLine = 3;
  static constexpr std::uint32_t kWorthShrinking = 16;

  static std::uint32_t half(Tag tag) { return static_cast<std::uint32_t>(tag); }
  static std::uint32_t home(Tag tag, std::uint32_t line_count) {
    return static_cast<std::uint32_t>(((tag >> 32) * line_count) >> 32);
  }
  static std::uint32_t next(std::uint32_t i, std::uint32_t line_count) {
    return i + 1 < line_count ? i + 1 : 0;
  }

  // Passes copies: the visitor may erase.
  template <class Visit>
  void visit_line(std::uint32_t i, Visit visit) const {
    const Line line = lines_.load(std::memory_order_relaxed)[i];
    for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
      if (line.tags[slot] != 0) visit(line.tags[slot], line.cells[slot]);
    }
  }

  bool resize(Account& account, std::uint32_t count);
  static Cell* place(Line* lines, std::uint32_t count, Tag tag);

  std::uint32_t sweep_at_ = 0;
  std::atomic<Line*> lines_{nullptr};
  std::atomic<std::uint32_t> line_count_{0};
  std::uint32_t size_ = 0;
  std::uint32_t last_half_ = 0;  // of the tag that was found last
  std::uint32_t last_ = 0;       // its slot then, among all that there are now
};
static_assert(sizeof(Shard) == 32);

}  // namespace sluice::memory
