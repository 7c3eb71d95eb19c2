#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace sluice {

/// The present version of an immutable object, which may be replaced while threads use it.
/// Thread-safe.
template <class T>
class Current {
 public:
  explicit Current(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  std::shared_ptr<const T> get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void replace(std::shared_ptr<const T> value) {
    const std::lock_guard lock(mutex_);
    value_.swap(value);  // The former one is destroyed after the lock is released.
    version_.fetch_add(1, std::memory_order_release);
  }
  /// Changes whenever the object is replaced.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;  // guarded by mutex_
  std::atomic<std::uint64_t> version_ = 0;
};

}  // namespace sluice
