#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::bench {

/// Distinct keys of 16 to 24 bytes, stored one after the other. Their order is unrelated to their
/// places in a hash table, so visiting them in order visits a table at random, while reading a key
/// costs no cache miss.
class KeyArray {
 public:
  /// REQUIRES: 1 <= count <= 100,000,000.
  explicit KeyArray(std::size_t count);

  std::size_t size() const { return begins_.size() - 1; }

  /// REQUIRES: i < size().
  std::string_view at(std::size_t i) const {
    assert(i < size());
    return {text_.data() + begins_[i], begins_[i + 1] - begins_[i]};
  }

 private:
  std::vector<char> text_;
  std::vector<std::uint32_t> begins_;
};

/// Visits the keys again and again; each step depends on the answer to the one before.
class Walk {
 public:
  explicit Walk(const KeyArray& keys) : keys_(keys) {}

  /// The next key. `answer` is the result of the last decision, below 2^63. The place of the next
  /// key is computed from it (it adds 0, which the compiler does not know), so the processor cannot
  /// start a decision before it has finished the one before.
  std::string_view next(std::uint64_t answer) {
    const std::size_t place = place_ + static_cast<std::size_t>(answer >> 63);
    place_ = place + 1 < keys_.size() ? place + 1 : 0;
    return keys_.at(place);
  }

 private:
  const KeyArray& keys_;
  std::size_t place_ = 0;
};

}  // namespace sluice::bench
