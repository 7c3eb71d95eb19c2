#pragma once

#include <cassert>
#include <cstddef>
#include <functional>
#include <unordered_map>
#include <utility>

namespace sluice {

/// A cache of the entries used last: it holds at least the last `kKept` distinct keys that were
/// asked for, and at most twice as many. It approximates an LRU order by two generations: a hit in
/// the old one moves the entry to the young one; when the young one is full, it becomes the old
/// one, and the entries of the former old one are dropped. A hit allocates nothing. find() takes
/// any type that Hash and Equal accept as transparent.
///
/// A value stays where it is for at least the next kKept calls of find() and insert() together.
/// Not thread-safe.
template <class Key, class Value, std::size_t kKept, class Hash = std::hash<Key>,
          class Equal = std::equal_to<Key>>
class RecentCache {
 public:
  RecentCache() {
    young_.reserve(kKept);
    old_.reserve(kKept);
  }

  /// The value of `key`, or null.
  template <class K>
  const Value* find(const K& key) {
    if (const auto at = young_.find(key); at != young_.end()) return &at->second;
    const auto at = old_.find(key);
    if (at == old_.end()) return nullptr;
    auto entry = old_.extract(at);
    make_room();
    return &young_.insert(std::move(entry)).position->second;
  }

  /// REQUIRES: find(key) is null.
  const Value& insert(Key key, Value value) {
    assert(!young_.contains(key) && !old_.contains(key));
    make_room();
    return young_.emplace(std::move(key), std::move(value)).first->second;
  }

 private:
  using Map = std::unordered_map<Key, Value, Hash, Equal>;

  void make_room() {
    if (young_.size() < kKept) return;
    old_.swap(young_);
    young_.clear();
  }

  Map young_;
  Map old_;
};

}  // namespace sluice
