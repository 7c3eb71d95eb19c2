#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace sluice::memory {

/// Bounds the bytes that a store holds for its keys. Thread-safe.
class Budget {
 public:
  /// The bytes that a page's block of lines takes beside its pages.
  static constexpr std::size_t kOverheadBytes = 8;
  /// The bytes that a block of malloc takes: glibc adds 8, and rounds up to a multiple of 16.
  static constexpr std::size_t block_bytes(std::size_t bytes) {
    return std::max<std::size_t>(32, (bytes + 8 + 15) / 16 * 16);
  }

  explicit Budget(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  std::size_t max_bytes() const { return max_bytes_; }
  std::size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  /// Whether a table may grow now to a block of lines of this size. A sixteenth is left to records:
  /// otherwise keys that need none would leave no room for a key that does.
  bool has_room_to_grow(std::size_t bytes) const {
    return used_bytes() + lines_bytes(bytes) + kOverheadBytes <= max_bytes_ - max_bytes_ / 16;
  }

  /// Allocates a block of 16-byte alignment. Null if the budget has no room, or if the system has
  /// no memory.
  void* allocate(std::size_t bytes) {
    if (!charge(block_bytes(bytes))) return nullptr;
    void* block = std::malloc(bytes);
    if (block == nullptr) uncharge(block_bytes(bytes));
    return block;
  }
  /// Frees a block. `bytes` are those passed to allocate().
  void release(void* block, std::size_t bytes) {
    std::free(block);
    uncharge(block_bytes(bytes));
  }

  /// From this size on, a block of lines is pages of its own: when it is freed, its memory goes
  /// back to the system at once, and leaves no gap in the heap.
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kLeastPagesBytes = kPageBytes;
  /// The bytes that a block of lines takes.
  static constexpr std::size_t lines_bytes(std::size_t bytes) {
    if (bytes < kLeastPagesBytes) return bytes;
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  /// As allocate(), aligned to a cache line.
  void* allocate_lines(std::size_t bytes) {
    const std::size_t taken = lines_bytes(bytes) + kOverheadBytes;
    if (!charge(taken)) return nullptr;
    void* block = bytes < kLeastPagesBytes ? allocate_aligned(bytes) : map_pages(bytes);
    if (block == nullptr) uncharge(taken);
    return block;
  }
  void release_lines(void* block, std::size_t bytes) {
    if (bytes < kLeastPagesBytes) {
      std::free(block);
    } else {
      munmap(block, bytes);
    }
    uncharge(lines_bytes(bytes) + kOverheadBytes);
  }

 private:
  bool charge(std::size_t bytes) {
    std::size_t used = used_bytes();
    do {
      if (used + bytes > max_bytes_) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void uncharge(std::size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  static void* allocate_aligned(std::size_t bytes) {
    void* block = nullptr;  // aligned_alloc() takes only multiples of the alignment.
    return posix_memalign(&block, kCacheLineBytes, bytes) == 0 ? block : nullptr;
  }
  static void* map_pages(std::size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
  }

  static constexpr std::size_t kCacheLineBytes = 64;

  const std::size_t max_bytes_;
  std::atomic<std::size_t> used_{0};
};

}  // namespace sluice::memory
