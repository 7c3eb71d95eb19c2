#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/store.h"

namespace sluice {

struct Trip;
class ErrandList;

/// One question on its way to a server: a request of an inquiry, or all of an inquiry that is asked
/// together. Belongs to the courier's thread, which may hand it to a carrier.
struct Errand {
  Errand() = default;
  Errand(const Inquiry& inquiry, std::span<const Request> asked, Decision& answer, Trip& trip)
      : requests(asked),
        decision(&answer),
        now(inquiry.now),
        together(inquiry.together),
        trip_(&trip) {}

  /// One, unless `together`.
  std::span<const Request> requests;
  Decision* decision = nullptr;
  Instant now = kStoreTime;
  bool together = false;

  /// For the carrier: how often it was sent elsewhere or again, and what it waits in: a list, or
  /// `holder` at `place`.
  std::uint8_t tries = 0;
  bool alone = false;  // Travels with no other.
  std::uint16_t slot = 0;
  std::uint32_t place = 0;
  void* holder = nullptr;

 private:
  friend class Courier;
  friend class ErrandList;

  Trip* trip_ = nullptr;
  ErrandList* list_ = nullptr;
  Errand* before_ = nullptr;
  Errand* after_ = nullptr;
};

/// Errands in order. Owns none of them; each is in one list at most.
class ErrandList {
 public:
  ErrandList() = default;
  ErrandList(const ErrandList&) = delete;
  ErrandList& operator=(const ErrandList&) = delete;

  bool empty() const { return first_ == nullptr; }
  std::size_t size() const { return size_; }
  Errand* first() const { return first_; }
  static Errand* after(const Errand& errand) { return errand.after_; }

  void push_back(Errand& errand) { insert(errand, last_, nullptr); }
  void push_front(Errand& errand) { insert(errand, nullptr, first_); }

  /// The first, no longer in the list. REQUIRES: not empty.
  Errand& pop_front() {
    Errand& errand = *first_;
    take_out(errand);
    return errand;
  }

  /// Takes an errand out of the list in which it is, if it is in one.
  static void take_out(Errand& errand) {
    ErrandList* list = errand.list_;
    if (list == nullptr) return;
    (errand.before_ == nullptr ? list->first_ : errand.before_->after_) = errand.after_;
    (errand.after_ == nullptr ? list->last_ : errand.after_->before_) = errand.before_;
    --list->size_;
    errand.list_ = nullptr;
    errand.before_ = errand.after_ = nullptr;
  }

 private:
  void insert(Errand& errand, Errand* before, Errand* after) {
    errand.list_ = this;
    errand.before_ = before;
    errand.after_ = after;
    (before == nullptr ? first_ : before->after_) = &errand;
    (after == nullptr ? last_ : after->before_) = &errand;
    ++size_;
  }

  Errand* first_ = nullptr;
  Errand* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sluice
