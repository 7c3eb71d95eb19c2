#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

/// A number to which one thread adds, and which any thread may read meanwhile.
class ThreadCount {
 public:
  // Not fetch_add(), which would lock the cache line: no other thread writes.
  void add(std::uint64_t more) { count_.store(read() + more, std::memory_order_relaxed); }
  std::uint64_t read() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_ = 0;
};

}  // namespace sluice
