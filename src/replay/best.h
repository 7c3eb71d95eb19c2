#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace sluice::replay {

/// Keeps the first few of many values, in the order of T::is_before(). Not thread-safe.
template <class T>
class Best {
 public:
  /// REQUIRES: most > 0.
  explicit Best(std::size_t most) : most_(most) { assert(most > 0); }

  void add(const T& value) {
    if (heap_.size() == most_ && !value.is_before(heap_.front())) return;
    heap_.push_back(value);
    std::push_heap(heap_.begin(), heap_.end(), order);
    if (heap_.size() <= most_) return;
    std::pop_heap(heap_.begin(), heap_.end(), order);
    heap_.pop_back();
  }

  std::vector<T> sorted() && {
    std::sort(heap_.begin(), heap_.end(), order);
    return std::move(heap_);
  }

 private:
  static bool order(const T& a, const T& b) { return a.is_before(b); }

  std::size_t most_;
  /// A heap with the last of the kept values on top.
  std::vector<T> heap_;
};

}  // namespace sluice::replay
