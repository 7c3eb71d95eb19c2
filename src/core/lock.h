#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

/// A lock of four bytes, for critical sections of a few dozen nanoseconds. A waiting thread spins
/// briefly, then sleeps in short steps. lock() costs one atomic instruction if the lock is free,
/// and unlock() a plain store, since it wakes no thread. Satisfies Lockable.
class Lock {
 public:
  void lock() {
    if (held_.exchange(1, std::memory_order_acquire) != 0) wait();
  }
  /// If the lock is held, this does not even take the cache line from its holder.
  bool try_lock() {
    return held_.load(std::memory_order_relaxed) == 0 &&
           held_.exchange(1, std::memory_order_acquire) == 0;
  }
  void unlock() { held_.store(0, std::memory_order_release); }

 private:
  void wait();

  std::atomic<std::uint32_t> held_{0};
};

}  // namespace sluice
