#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace sluice::memory {

/// The bytes that all tables of a store may hold together. Thread-safe.
class Budget {
 public:
  explicit Budget(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  std::size_t max_bytes() const { return max_bytes_; }
  std::size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }

 private:
  friend class Account;

  const std::size_t max_bytes_;
  std::atomic<std::size_t> used_{0};
};

/// One table's share of a budget. So that a table which came late can serve at all when others hold
/// everything, each may hold kFloorBytes whatever the rest do. Thread-safe.
class Account {
 public:
  static constexpr std::size_t kFloorBytes = 256 * 1024;
  /// What malloc adds to a block, about.
  static constexpr std::size_t kOverheadBytes = 8;

  explicit Account(Budget& budget) : budget_(budget) {}

  const Budget& budget() const { return budget_; }

  /// A block of malloc's, aligned to `alignment`. Null where the budget has no room (unless the
  /// block is `needed`, whatever the budget) or the system no memory.
  void* allocate(std::size_t bytes, std::size_t alignment = 16, bool needed = false) {
    const std::size_t charged = bytes + kOverheadBytes;
    const std::size_t held = held_.fetch_add(charged, std::memory_order_relaxed) + charged;
    const std::size_t used = budget_.used_.fetch_add(charged, std::memory_order_relaxed) + charged;
    void* block = nullptr;
    if (needed || used <= budget_.max_bytes_ || held <= kFloorBytes) {
      block = alignment <= 16 ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
    }
    if (block == nullptr) uncharge(charged);
    return block;
  }

  /// `bytes` as given to allocate().
  void release(void* block, std::size_t bytes) {
    std::free(block);
    uncharge(bytes + kOverheadBytes);
  }

 private:
  void uncharge(std::size_t charged) {
    held_.fetch_sub(charged, std::memory_order_relaxed);
    budget_.used_.fetch_sub(charged, std::memory_order_relaxed);
  }

  Budget& budget_;
  std::atomic<std::size_t> held_{0};
};

}  // namespace sluice::memory
