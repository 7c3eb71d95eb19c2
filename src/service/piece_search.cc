#include "service/piece_search.h"

#include <cstring>

namespace sluice {

PieceSearch::PieceSearch(const std::vector<std::string>& pieces)
    : labels_(1, '\0'), suffix_{kRoot} {
  struct Node {
    std::size_t begin, end;  // The pieces that begin so.
    std::size_t length;
  };
  // Shorter ones come first. So the suffix of a node has its children before the node gets its own.
  std::vector<Node> nodes{{0, pieces.size(), 0}};
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    auto [begin, end, length] = nodes[node];
    lengths_.push_back(length);
    first_child_.push_back(static_cast<std::uint32_t>(nodes.size()));
    const bool is_piece = begin != end && pieces[begin].size() == length;
    pieces_.push_back(is_piece ? static_cast<std::uint32_t>(begin++) : kNone);
    while (begin != end) {
      const char label = pieces[begin][length];
      std::size_t next = begin;
      while (next != end && pieces[next][length] == label) ++next;
      suffix_.push_back(node == kRoot ? kRoot : step(suffix_[node], label));
      labels_ += label;
      nodes.push_back({begin, next, length + 1});
      begin = next;
    }
  }
  first_child_.push_back(static_cast<std::uint32_t>(nodes.size()));
  for (const std::uint32_t suffix : suffix_) {
    const bool is_piece = pieces_[suffix] != kNone;
    shorter_.push_back(suffix == kRoot || is_piece ? suffix : shorter_[suffix]);
  }
}

// The longest node with which the text of `node` and then `c` ends.
std::uint32_t PieceSearch::step(std::uint32_t node, char c) const {
  while (true) {
    const std::uint32_t first = first_child_[node];
    const void* const child = std::memchr(&labels_[first], c, first_child_[node + 1] - first);
    if (child != nullptr) {
      return static_cast<std::uint32_t>(static_cast<const char*>(child) - labels_.data());
    }
    if (node == kRoot) return kRoot;
    node = suffix_[node];
  }
}

}  // namespace sluice
