#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace sluice::advise {

/// Numbers texts, up to kMaxTexts of them, each cut at kMaxTextBytes. Not thread-safe.
class TextNumbers {
 public:
  static constexpr std::size_t kMaxTexts = 20'000;
  static constexpr std::size_t kMaxTextBytes = 160;
  /// The number of every text beyond the bound.
  static constexpr std::uint32_t kUnknown = 0;

  std::uint32_t number(std::string_view text);

  /// REQUIRES: a number that number() returned. Empty for kUnknown.
  const std::string& text(std::uint32_t number) const {
    assert(number < texts_.size());
    return texts_[number];
  }

 private:
  std::deque<std::string> texts_ = {""};
  boost::unordered_flat_map<std::string_view, std::uint32_t> numbers_;
};

/// The most frequent of the texts of one key, by the algorithm of Misra and Gries: the counts are
/// lower bounds, and a text of more than a quarter of the requests is never missed.
class FrequentTexts {
 public:
  void add(std::uint32_t number);

  struct Entry {
    std::uint32_t number = TextNumbers::kUnknown;
    std::uint32_t at_least = 0;
  };
  Entry most_frequent() const;

 private:
  std::array<Entry, 3> entries_;
};

}  // namespace sluice::advise
