#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace sluice {

/// Whose turn it is with something that one thread, the owner, lends to others while it does not
/// use it. Whoever has it may touch it without a lock; this lock is held for a moment only.
class Ownership final {
 public:
  /// The owner takes it, or keeps it. False where it is lent: the borrower will be told.
  bool claim() {
    const std::lock_guard lock(mutex_);
    wanted_ = holder_ == Holder::kBorrower;
    if (!wanted_) holder_ = Holder::kOwner;
    return !wanted_;
  }

  /// The owner, having it, has no use for it now: it can be borrowed.
  void release() {
    const std::lock_guard lock(mutex_);
    holder_ = Holder::kNobody;
  }

  /// Another thread takes it. False where it is not free.
  bool borrow() {
    const std::lock_guard lock(mutex_);
    if (holder_ != Holder::kNobody) return false;
    holder_ = Holder::kBorrower;
    return true;
  }

  /// The borrower gives it back, to the owner where that is `needed` or the owner has asked for it,
  /// in which case `wake` is called, under the lock: when the lock is free again, the borrower has
  /// done its last, and what is lent may be destroyed.
  template <typename Wake>
  void give_back(bool needed, Wake wake) {
    const std::lock_guard lock(mutex_);
    needed = needed || wanted_;
    wanted_ = false;
    holder_ = needed ? Holder::kOwner : Holder::kNobody;
    if (needed) wake();
    given_back_.notify_all();
  }

  /// The owner takes it, and waits for the borrower if it must.
  void await() {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [this] { return holder_ != Holder::kBorrower; });
    holder_ = Holder::kOwner;
  }

 private:
  enum class Holder : std::uint8_t { kOwner, kNobody, kBorrower };

  std::mutex mutex_;
  std::condition_variable given_back_;
  Holder holder_ = Holder::kOwner;
  bool wanted_ = false;
};

}  // namespace sluice
