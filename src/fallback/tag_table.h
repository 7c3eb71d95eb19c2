#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "core/instant.h"

namespace sluice {

/// Zeroed memory that takes up no page before it is used, in huge pages where the system has them:
/// with pages of 4 KiB, most accesses to a large table wait until the processor has found the page,
/// which takes 200 ns in a virtual machine. Throws std::bad_alloc.
inline std::shared_ptr<void> huge_pages(std::size_t bytes) {
  constexpr std::size_t kPage = std::size_t{2} << 20;
  const std::size_t mapped_bytes = bytes + kPage;
  void* const mapping =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  static_cast<void>(madvise(mapping, mapped_bytes, MADV_HUGEPAGE));
  void* begin = mapping;
  std::size_t space = mapped_bytes;
  std::align(kPage, bytes, begin, space);
  return {begin, [=](void*) { munmap(mapping, mapped_bytes); }};
}

/// The bits of a tag, which leave room for a few flags in the same word.
inline constexpr int kTagBits = 61;

/// A hash table of entries that are found by a tag, a hash that is taken for the key itself. It
/// grows up to its most bytes; then the entry that ends first, of a few, gives way to a new one.
///
/// An Entry is free if all of its bytes are 0. Its member `tag` has at least kTagBits bits, and is
/// not 0 if it is in use; `ends_at()` says from when on it is of no use.
///
/// It is divided into shards, each of which may be used by one thread at a time.
template <class Entry>
class TagTable {
  static_assert(std::is_trivially_copyable_v<Entry>);

 public:
  static constexpr std::size_t kShards = 256;
  static constexpr std::size_t kWays = 16;
  static constexpr std::size_t kLeastBytes = kShards * kWays * sizeof(Entry);

  /// REQUIRES: most_bytes >= kLeastBytes.
  explicit TagTable(std::size_t most_bytes)
      : most_sets_(std::bit_floor(most_bytes / kLeastBytes)),
        pages_(huge_pages(most_sets_ * kLeastBytes)) {
    assert(most_sets_ > 0);
  }

  /// Where the entry is, or will be, unless others of its set have its place, or the shard grows
  /// meanwhile. May be called by any thread.
  const Entry* usual_place(std::size_t shard, std::uint64_t tag) const {
    return &set_of(shard, tag)[usual_way(tag)];
  }

  /// Null if there is none. REQUIRES: the tag has at most kTagBits bits, and is not 0.
  Entry* find(std::size_t shard, std::uint64_t tag) const {
    Entry& found = place_in(set_of(shard, tag), tag);
    return found.tag == tag ? &found : nullptr;
  }

  /// The entry, which is new if only its tag is set. REQUIRES: as find().
  Entry& find_or_add(std::size_t shard, std::uint64_t tag, Instant now) {
    while (true) {
      Set& set = set_of(shard, tag);
      Entry& found = place_in(set, tag);
      if (found.tag == tag) return found;
      if (found.tag == 0) return add(found, tag);
      Entry& first = *std::ranges::min_element(set, {}, &Entry::ends_at);
      if (first.ends_at() <= now || sets_in_use(shard) == most_sets_) return add(first, tag);
      grow(shard);
    }
  }

 private:
  using Set = std::array<Entry, kWays>;

  std::size_t sets_in_use(std::size_t shard) const {
    return std::size_t{1} << doublings_[shard].load(std::memory_order_relaxed);
  }

  Set* sets() const { return static_cast<Set*>(pages_.get()); }
  // The first of a cache line, so that the next one is at hand if that is taken.
  static std::size_t usual_way(std::uint64_t tag) {
    constexpr std::size_t kInALine = 64 / sizeof(Entry);
    return (tag >> 32) * kInALine % kWays;
  }

  // Each shard has every kShards-th set, so that all sets in use lie together at the beginning.
  Set& set_of(std::size_t shard, std::uint64_t tag) const {
    return sets()[(tag & (sets_in_use(shard) - 1)) * kShards + shard];
  }

  // The entry of the tag, or the free one that it would have, or any other if there is neither.
  // No entry becomes free but by grow(), so a tag is not behind a free place.
  static Entry& place_in(Set& set, std::uint64_t tag) {
    assert(tag != 0 && tag >> kTagBits == 0);
    const std::size_t usual = usual_way(tag);
    std::size_t way = usual;
    while (set[way].tag != tag && set[way].tag != 0) {
      way = (way + 1) % kWays;
      if (way == usual) break;
    }
    return set[way];
  }

  static Entry& add(Entry& place, std::uint64_t tag) {
    place = Entry{};
    place.tag = tag & (~std::uint64_t{0} >> (64 - kTagBits));
    return place;
  }

  // About half of each set's entries move to a set that was not used before.
  void grow(std::size_t shard) {
    const std::size_t before = sets_in_use(shard);
    doublings_[shard].fetch_add(1, std::memory_order_relaxed);
    for (std::size_t i = 0; i < before; ++i) {
      Set& old = sets()[i * kShards + shard];
      const Set entries = std::exchange(old, Set{});
      for (const Entry& entry : entries) {
        if (entry.tag != 0) place_in(set_of(shard, entry.tag), entry.tag) = entry;
      }
    }
  }

  const std::size_t most_sets_;  // Of each shard; a power of two, as are those in use.
  std::array<std::atomic<std::uint8_t>, kShards> doublings_{};  // Of the sets in use.
  const std::shared_ptr<void> pages_;
};

}  // namespace sluice
