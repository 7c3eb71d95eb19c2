#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace sluice::memory {

/// The bytes that all tables of a store may hold together. Thread-safe.
class Budget {
 public:
  /// So that a table which came late can serve at all when others hold everything, each may hold
  /// this much whatever the rest do; beyond kFlooredTables tables they share what so many have.
  static constexpr std::size_t kFloorBytes = 256 * 1024;
  static constexpr std::size_t kFlooredTables = 1024;

  explicit Budget(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  std::size_t max_bytes() const { return max_bytes_; }
  std::size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }

 private:
  friend class Account;

  /// The share of one table in what `each` table may hold.
  std::size_t share(std::size_t each) const {
    const std::size_t tables = tables_.load(std::memory_order_relaxed);
    return tables <= kFlooredTables ? each : each * kFlooredTables / tables;
  }

  const std::size_t max_bytes_;
  std::atomic<std::size_t> used_{0};
  std::atomic<std::size_t> tables_{0};
};

/// One table's share of a budget. Thread-safe.
class Account {
 public:
  static constexpr std::size_t kFloorBytes = Budget::kFloorBytes;
  /// The floor of the blocks a table cannot do without: a line for each shard.
  static constexpr std::size_t kNeededBytes = 80 * 1024;
  /// What malloc adds to a block, about.
  static constexpr std::size_t kOverheadBytes = 8;

  explicit Account(Budget& budget) : budget_(budget) { ++budget_.tables_; }
  ~Account() { --budget_.tables_; }
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  const Budget& budget() const { return budget_; }

  /// A block of malloc's, aligned to `alignment`. Null where neither the budget nor the floor has
  /// room, or the system no memory. What is `needed` has a floor of its own.
  void* allocate(std::size_t bytes, std::size_t alignment = 16, bool needed = false) {
    if (!charge(bytes + kOverheadBytes, needed)) return nullptr;
    void* block = alignment <= 16 ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
    if (block == nullptr) uncharge(bytes + kOverheadBytes, needed);
    return block;
  }

  /// `bytes` and `needed` as given to allocate().
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
