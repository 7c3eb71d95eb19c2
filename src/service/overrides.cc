#include "service/overrides.h"

#include <boost/container/small_vector.hpp>
#include <cstring>
#include <map>
#include <utility>

namespace sluice {

bool matches(std::string_view pattern, std::string_view key) {
  const std::size_t first = pattern.find('*');
  if (first == std::string_view::npos) return pattern == key;
  const std::size_t last = pattern.rfind('*');
  const std::string_view head = pattern.substr(0, first);
  const std::string_view tail = pattern.substr(last + 1);
  if (key.size() < head.size() + tail.size() || !key.starts_with(head) || !key.ends_with(tail)) {
    return false;
  }
  // Each piece between two '*' is matched at its first place, which leaves most of the key to the
  // next.
  std::string_view rest = key.substr(head.size(), key.size() - head.size() - tail.size());
  for (std::size_t star = first; star != last;) {
    const std::size_t next = pattern.find('*', star + 1);
    const std::string_view piece = pattern.substr(star + 1, next - star - 1);
    star = next;
    if (piece.empty()) continue;
    if (rest.empty()) return false;
    // Unlike find(), it takes linear time whatever key the client has sent.
    const void* const at = ::memmem(rest.data(), rest.size(), piece.data(), piece.size());
    if (at == nullptr) return false;
    rest.remove_prefix(static_cast<std::size_t>(static_cast<const char*>(at) - rest.data()) +
                       piece.size());
  }
  return true;
}

namespace {

/// The texts between the '*' of a pattern, without the first and the last.
std::vector<std::string> pieces_of(std::string_view pattern) {
  std::vector<std::string> pieces;
  std::size_t begin = pattern.find('*') + 1;
  for (std::size_t end = pattern.find('*', begin); end != std::string_view::npos;) {
    if (end != begin) pieces.emplace_back(pattern.substr(begin, end - begin));
    begin = end + 1;
    end = pattern.find('*', begin);
  }
  return pieces;
}

}  // namespace

Overrides::Overrides(const std::vector<std::pair<std::string, KeyRule>>& rules) {
  std::map<std::string, std::uint32_t> numbers;
  for (const auto& [key, rule] : rules) {
    if (!is_pattern(key)) continue;
    for (const std::string& piece : pieces_of(key)) numbers[piece];
  }
  std::vector<std::string> pieces;
  for (auto& [piece, number] : numbers) {
    number = static_cast<std::uint32_t>(pieces.size());
    pieces.push_back(piece);
  }
  if (!pieces.empty()) pieces_.emplace(pieces);
  piece_count_ = pieces.size();
  for (const auto& [key, rule] : rules) {
    if (!is_pattern(key)) {
      exact_.emplace(key, rule);
      continue;
    }
    patterns_.push_back({key.substr(0, key.find('*')), {}, key.substr(key.rfind('*') + 1), rule});
    for (const std::string& piece : pieces_of(key)) {
      patterns_.back().pieces.push_back(numbers.at(piece));
    }
  }
}

const KeyRule* Overrides::find(std::string_view key) const {
  if (const auto at = exact_.find(key); at != exact_.end()) return &at->second;
  // The first that matches without a search; of those before it, some may match by one.
  std::size_t first = 0;
  bool is_searched = false;
  for (; first != patterns_.size(); ++first) {
    if (!patterns_[first].has_ends_of(key)) continue;
    if (patterns_[first].pieces.empty()) break;
    is_searched = true;
  }
  if (is_searched) first = search(key, first);
  return first == patterns_.size() ? nullptr : &patterns_[first].rule;
}

/// The first of the patterns before `first` that matches, or else `first`. Of each pattern, a piece
/// is matched at its first place behind the one before it, which leaves most of the key to the
/// next.
std::size_t Overrides::search(std::string_view key, std::size_t first) const {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Progress {
    std::size_t begin = 0;        // Where the next piece may begin.
    std::size_t found = 0;        // Pieces.
    std::uint32_t other = kNone;  // Another pattern that awaits the same piece.
  };
  boost::container::small_vector<Progress, 32> progress(first);
  // By piece: a pattern that awaits it.
  boost::container::small_vector<std::uint32_t, 64> awaiting(piece_count_, kNone);
  const auto await_next = [&](std::uint32_t pattern) {
    Progress& its = progress[pattern];
    its.other = std::exchange(awaiting[patterns_[pattern].pieces[its.found]], pattern);
  };
  for (std::uint32_t i = 0; i < first; ++i) {
    progress[i].begin = patterns_[i].head.size();
    if (patterns_[i].has_ends_of(key)) await_next(i);
  }
  pieces_->search(key, [&](std::uint32_t piece, std::size_t bytes, std::size_t end) {
    std::uint32_t pattern = std::exchange(awaiting[piece], kNone);
    while (pattern != kNone) {
      Progress& its = progress[pattern];
      const std::uint32_t other = its.other;
      const bool may_match = pattern < first && end + patterns_[pattern].tail.size() <= key.size();
      if (may_match && end - bytes >= its.begin) {
        its.begin = end;
        ++its.found;
      }
      if (its.found == patterns_[pattern].pieces.size()) {
        first = pattern;
      } else if (may_match) {
        await_next(pattern);
      }
      pattern = other;
    }
  });
  return first;
}

}  // namespace sluice
