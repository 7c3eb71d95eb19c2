#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memory/key_array.h"

namespace sluice::bench {

/// All keys in several random orders, stored in these orders. So the next key is in the cache, as
/// if a request had brought it, while the server finds the keys at random places.
class KeyTape {
 public:
  explicit KeyTape(const KeyArray& keys);

  /// The number of keys. This many in succession are all keys.
  std::size_t keys() const { return cells_.size() / kOrders; }

  /// The key at position `i` of the tape, which is endless.
  std::string_view at(std::size_t i) const {
    const Cell& cell = cells_[i % cells_.size()];
    return {cell.text.data(), cell.bytes};
  }

 private:
  struct Cell {
    std::array<char, 31> text;
    std::uint8_t bytes;
  };
  static constexpr std::size_t kOrders = 4;

  std::vector<Cell> cells_;
};

/// The position of several callers that share a tape. Thread-safe.
class KeyCursor {
 public:
  explicit KeyCursor(const KeyTape& tape) : tape_(tape) {}

  std::string_view next() { return tape_.at(at_.fetch_add(1, std::memory_order_relaxed)); }

 private:
  const KeyTape& tape_;
  std::atomic<std::size_t> at_{0};
};

}  // namespace sluice::bench
