#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

/// A lock of four bytes for a few dozen nanoseconds of work: a waiter spins briefly, then sleeps in
/// short steps. Taking it free costs one locked instruction and letting go of it a plain store,
/// since nobody has to be woken. Meets Lockable.
class Lock {
 public:
  void lock() {
    if (held_.exchange(1, std::memory_order_acquire) != 0) wait();
  }
  /// Takes nothing from who holds it, not even the cache line.
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
