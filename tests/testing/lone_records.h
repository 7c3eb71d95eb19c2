#pragma once

#include <cstddef>
#include <cstdint>

#include "stores/memory/records.h"

namespace sluice::memory {

// For the tests of stores/memory: the records of one key, with a separate budget.
class LoneRecords {
 public:
  explicit LoneRecords(std::size_t max_bytes) : budget_(max_bytes) {}
  ~LoneRecords() {
    records_.release(cell);
    records_.free_block();
  }
  LoneRecords(const LoneRecords&) = delete;
  LoneRecords& operator=(const LoneRecords&) = delete;

  /// As a store does: calls reserve(records) again if a record found no place. Then all records
  /// have moved, and reserve() takes the cell anew.
  template <class Reserve>
  bool reserve(Reserve reserve) {
    while (!reserve(records_)) {
      if (!records_.lacks_place() || !move()) return false;
    }
    return true;
  }
  /// Moves the key's records into another block.
  bool move() {
    is_due_ = false;
    return records_.renew(0, [&](auto visit) { visit(cell); });
  }
  Records& records() { return records_; }
  /// Whether much of the block is free. REQUIRES: a record has been allocated.
  bool is_due() const { return is_due_; }
  const Records::Block& block() const { return *block_; }

  /// Nothing more can be allocated.
  void leave_no_room() {
    while (budget_.charge(1)) ++ballast_;
  }
  std::size_t used_bytes() const { return budget_.used_bytes() - ballast_; }

  Cell cell = 0;

 private:
  Budget budget_;
  std::size_t ballast_ = 0;
  Records::Block* block_ = nullptr;
  bool is_due_ = false;
  Records records_{budget_, block_, is_due_};
};

}  // namespace sluice::memory
