#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memory/key_array.h"

namespace sluice::bench {

/// All keys in a random order, and again in another, and so on, laid out in that order: what is
/// read next is in the cache, as if it had come in a request, while a server finds the keys at
/// random places.
class KeyTape {
 public:
  explicit KeyTape(const KeyArray& keys);

  /// How many keys there are: so many in a row are all of them.
  std::size_t keys() const { return cells_.size() / kOrders; }

  /// The tape is endless.
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

/// Where those who share a tape are on it. Thread-safe.
class KeyCursor {
 public:
  explicit KeyCursor(const KeyTape& tape) : tape_(tape) {}

  std::string_view next() { return tape_.at(at_.fetch_add(1, std::memory_order_relaxed)); }

 private:
  const KeyTape& tape_;
  std::atomic<std::size_t> at_{0};
};

}  // namespace sluice::bench
