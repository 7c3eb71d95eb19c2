#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::bench {

/// Distinct keys of 16 to 24 bytes, held back to back. Their order says nothing about where a hash
/// table puts them, so visiting them one after the other visits a table at random, and fetching a
/// key costs no cache miss of its own.
class KeyArray {
 public:
  /// REQUIRES: 1 <= count <= 100,000,000.
  explicit KeyArray(std::size_t count);

  std::size_t size() const { return begins_.size() - 1; }

  /// REQUIRES: i < size().
  std::string_view at(std::size_t i) const {
    return {text_.data() + begins_[i], begins_[i + 1] - begins_[i]};
  }

 private:
  std::vector<char> text_;
  std::vector<std::uint32_t> begins_;
};

/// Goes through the keys again and again, each step after the answer to the one before.
class Walk {
 public:
  explicit Walk(const KeyArray& keys) : keys_(keys) {}

  /// The next key. `answer` is what the last question gave, below 2^63: the place of the next key
  /// is computed from it (it adds 0, which the compiler cannot know), so the processor cannot begin
  /// one question before it has answered the other.
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
