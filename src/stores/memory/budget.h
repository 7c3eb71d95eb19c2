#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace sluice::memory {

// The thread sanitizer does not see that mremap() moves pages: it would take them for those that
// were at the same place before.
#ifdef __has_feature
inline constexpr bool kMovesPages = !__has_feature(thread_sanitizer);
#else
inline constexpr bool kMovesPages = true;
#endif

/// Bounds the bytes that a store holds for its keys. Thread-safe.
class Budget {
 public:
  /// What a block is charged beside its pages.
  static constexpr std::size_t kOverheadBytes = 8;

  explicit Budget(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  std::size_t max_bytes() const { return max_bytes_; }
  std::size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  /// Whether a table may grow now to a block of lines of this size. A sixteenth is left to records:
  /// otherwise keys that need none would leave no room for a key that does.
  bool has_room_to_grow(std::size_t bytes) const {
    return used_bytes() + lines_bytes(bytes) + kOverheadBytes <= max_bytes_ - max_bytes_ / 16;
  }

  /// Charges bytes without allocating them. Returns false if the budget has no room.
  bool charge(std::size_t bytes) {
    std::size_t used = used_bytes();
    do {
      if (used + bytes > max_bytes_) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void uncharge(std::size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  /// From this size on, a block is pages of its own: when it is freed, its memory goes back to the
  /// system at once, and leaves no gap in the heap.
  static constexpr std::size_t kPageBytes = 4096;
  /// The bytes that a block takes.
  static constexpr std::size_t lines_bytes(std::size_t bytes) {
    if (bytes < kPageBytes) return bytes;
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  /// Allocates a block, aligned to a cache line. Null if the system has no memory.
  static void* take_pages(std::size_t bytes) {
    if (bytes < kPageBytes) {
      void* block = nullptr;  // aligned_alloc() takes only multiples of the alignment.
      return posix_memalign(&block, kCacheLineBytes, bytes) == 0 ? block : nullptr;
    }
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
  }
  static void free_pages(void* block, std::size_t bytes) {
    if (bytes < kPageBytes) {
      std::free(block);
    } else {
      munmap(block, bytes);
    }
  }
  /// Adds pages to a block that is pages, and may move it. Null, and nothing changes, if the system
  /// has no memory.
  static void* extend_pages(void* block, std::size_t bytes, std::size_t more_bytes) {
    if (!kMovesPages) return nullptr;
    void* pages = mremap(block, bytes, more_bytes, MREMAP_MAYMOVE);
    return pages == MAP_FAILED ? nullptr : pages;
  }
  /// As take_pages() and free_pages(), charged to the budget. Null also if that has no room.
  void* allocate_lines(std::size_t bytes) {
    const std::size_t taken = lines_bytes(bytes) + kOverheadBytes;
    if (!charge(taken)) return nullptr;
    void* block = take_pages(bytes);
    if (block == nullptr) uncharge(taken);
    return block;
  }
  void release_lines(void* block, std::size_t bytes) {
    free_pages(block, bytes);
    uncharge(lines_bytes(bytes) + kOverheadBytes);
  }

 private:
  static constexpr std::size_t kCacheLineBytes = 64;

  const std::size_t max_bytes_;
  std::atomic<std::size_t> used_{0};
};

}  // namespace sluice::memory
