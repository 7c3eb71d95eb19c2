#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/store.h"
#include "stores/remote/errand.h"

namespace sluice {

/// One inquiry under way, and what it asks for. It lies apart from other trips, since many are
/// under way at once, and is used again for other inquiries.
struct alignas(64) Trip {
  /// Begins anew, with an errand for each request, or for all of them together. Throws
  /// std::bad_alloc: it can begin again.
  void begin(Inquiry& of, std::chrono::steady_clock::time_point answered_by);

  Inquiry* inquiry = nullptr;
  std::chrono::steady_clock::time_point deadline;
  std::span<Errand> errands;
  /// Errands without an answer.
  std::size_t open = 0;

  /// How many errands it has room for.
  std::size_t room() const { return several_.capacity(); }

 private:
  friend class TripList;

  Trip* before_ = nullptr;
  Trip* after_ = nullptr;
  Errand only_;  // Most ask for one.
  std::vector<Errand> several_;
};

/// Trips in order, which it owns. Each is in one list.
class TripList {
 public:
  TripList() = default;
  ~TripList() {
    while (!empty()) delete &pop_back();
  }
  TripList(const TripList&) = delete;
  TripList& operator=(const TripList&) = delete;

  bool empty() const { return first_ == nullptr; }
  std::size_t size() const { return size_; }
  /// REQUIRES, of these four: not empty.
  Trip& front() { return *first_; }
  Trip& back() { return *last_; }
  Trip& pop_front() { return take_out(*first_); }
  Trip& pop_back() { return take_out(*last_); }
  static Trip* before(const Trip& trip) { return trip.before_; }

  void push_back(Trip& trip) { put_behind(trip, last_); }

  /// Puts it behind another one, or first where that is null.
  void put_behind(Trip& trip, Trip* before) {
    Trip* const after = before == nullptr ? first_ : before->after_;
    trip.before_ = before;
    trip.after_ = after;
    (before == nullptr ? first_ : before->after_) = &trip;
    (after == nullptr ? last_ : after->before_) = &trip;
    ++size_;
  }

  /// One that is in this list, and is the caller's now.
  Trip& take_out(Trip& trip) {
    (trip.before_ == nullptr ? first_ : trip.before_->after_) = trip.after_;
    (trip.after_ == nullptr ? last_ : trip.after_->before_) = trip.before_;
    --size_;
    return trip;
  }

  /// Puts all of another list behind its own.
  void append(TripList& others) {
    if (others.empty()) return;
    others.first_->before_ = last_;
    (last_ == nullptr ? first_ : last_->after_) = others.first_;
    last_ = std::exchange(others.last_, nullptr);
    others.first_ = nullptr;
    size_ += std::exchange(others.size_, 0);
  }

 private:
  Trip* first_ = nullptr;
  Trip* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sluice
