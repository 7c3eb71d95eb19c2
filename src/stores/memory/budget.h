#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace sluice::memory {

/// Bounds the bytes that all tables of a store hold together. Thread-safe.
class Budget {
 public:
  /// Each table may hold this much even if the budget is used up, so that a new table can work when
  /// others hold everything. If there are more than kFlooredTables tables, they share the floors of
  /// that many.
  static constexpr std::size_t kFloorBytes = 256 * 1024;
  static constexpr std::size_t kFlooredTables = 1024;

  explicit Budget(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  std::size_t max_bytes() const { return max_bytes_; }
  std::size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }

 private:
  friend class Account;

  /// The floor of one table, if `each` is that of a table among few.
  std::size_t share(std::size_t each) const {
    const std::size_t tables = tables_.load(std::memory_order_relaxed);
    return tables <= kFlooredTables ? each : each * kFlooredTables / tables;
  }

  const std::size_t max_bytes_;
  std::atomic<std::size_t> used_{0};
  std::atomic<std::size_t> tables_{0};
};

/// The memory of one table, charged to a budget. Thread-safe.
class Account {
 public:
  static constexpr std::size_t kFloorBytes = Budget::kFloorBytes;
  /// The floor for the blocks without which a table cannot work: one line for each shard.
  static constexpr std::size_t kNeededBytes = 80 * 1024;
  /// About the bytes that malloc adds to a block.
  static constexpr std::size_t kOverheadBytes = 8;

  explicit Account(Budget& budget) : budget_(budget) { ++budget_.tables_; }
  ~Account() { --budget_.tables_; }
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  const Budget& budget() const { return budget_; }

  /// Allocates a block, aligned to `alignment`. Null if neither the budget nor the table's floor
  /// has room, or if the system has no memory. Blocks that are `needed` have a separate floor.
  void* allocate(std::size_t bytes, std::size_t alignment = 16, bool needed = false) {
    if (!charge(bytes + kOverheadBytes, needed)) return nullptr;
    void* block = alignment <= 16 ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
    if (block == nullptr) uncharge(bytes + kOverheadBytes, needed);
    return block;
  }

  /// Frees a block. `bytes` and `needed` are those passed to allocate().
  void release(void* block, std::size_t bytes, bool needed = false) {
    std::free(block);
    uncharge(bytes + kOverheadBytes, needed);
  }

 private:
  bool charge(std::size_t bytes, bool needed) {
    auto& own = needed ? needed_ : held_;
    const std::size_t held = own.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    const std::size_t floor = budget_.share(needed ? kNeededBytes : kFloorBytes);
    std::size_t used = budget_.used_.load(std::memory_order_relaxed);
    do {
      if (used + bytes > budget_.max_bytes_ && held > floor) {
        own.fetch_sub(bytes, std::memory_order_relaxed);
        return false;
      }
    } while (!budget_.used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }

  void uncharge(std::size_t bytes, bool needed) {
    (needed ? needed_ : held_).fetch_sub(bytes, std::memory_order_relaxed);
    budget_.used_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  Budget& budget_;
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> needed_{0};
};

}  // namespace sluice::memory
