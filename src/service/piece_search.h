#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Finds all places of many pieces of text in a key, by the algorithm of Aho and Corasick: in time
/// linear in the key and in the number of these places. Immutable, thread-safe.
class PieceSearch {
 public:
  /// `pieces` are sorted and different, and none is empty. Pieces are numbered in this order.
  explicit PieceSearch(const std::vector<std::string>& pieces);

  /// Calls `found(piece, bytes, end)` for each piece, of so many bytes, that ends at `end` in the
  /// key, in the order of the ends.
  template <class Found>
  void search(std::string_view key, const Found& found) const {
    std::uint32_t node = kRoot;
    for (std::size_t i = 0; i < key.size(); ++i) {
      node = step(node, key[i]);
      std::uint32_t ending = pieces_[node] == kNone ? shorter_[node] : node;
      for (; ending != kRoot; ending = shorter_[ending]) {
        found(pieces_[ending], lengths_[ending], i + 1);
      }
    }
  }

 private:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::uint32_t step(std::uint32_t node, char c) const;

  // A node stands for the beginning of a piece. The children of a node follow each other: of `n`
  // from first_child_[n] on, up to first_child_[n + 1].
  std::vector<std::uint32_t> first_child_;
  std::string labels_;                  // By node: its last character.
  std::vector<std::uint32_t> pieces_;   // By node: the piece that it is, or kNone.
  std::vector<std::size_t> lengths_;    // By node.
  std::vector<std::uint32_t> suffix_;   // By node: its longest end that is a node, too.
  std::vector<std::uint32_t> shorter_;  // By node: its longest end that is a piece, or kRoot.
};

}  // namespace sluice
