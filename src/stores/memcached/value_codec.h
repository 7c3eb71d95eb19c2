#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/limit_syntax.h"

namespace sluice::memcached {

/// A number as 8 bytes, the lowest first.
inline void store_word(char* at, std::uint64_t word) {
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  std::memcpy(at, &word, sizeof word);
}
/// And back.
inline std::uint64_t load_word(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

/// The lowest 56 bits of a number, 7 in each byte, lowest first; in three steps, each of which
/// parts every group of bits in two.
constexpr std::uint64_t spread_groups(std::uint64_t bits) {
  bits = (bits & 0x00ff'ffff'f000'0000) << 4 | (bits & 0x0fff'ffff);
  bits = (bits & 0x0fff'c000'0fff'c000) << 2 | (bits & 0x0000'3fff'0000'3fff);
  return (bits & 0x3f80'3f80'3f80'3f80) << 1 | (bits & 0x007f'007f'007f'007f);
}
/// And back; what else stands in the bytes is left out.
constexpr std::uint64_t gather_groups(std::uint64_t bytes) {
  bytes = (bytes & 0x7f00'7f00'7f00'7f00) >> 1 | (bytes & 0x007f'007f'007f'007f);
  bytes = (bytes & 0x3fff'0000'3fff'0000) >> 2 | (bytes & 0x0000'3fff'0000'3fff);
  return (bytes & 0x0fff'ffff'0000'0000) >> 4 | (bytes & 0x0fff'ffff);
}

/// Appends a value to a string, piece by piece. What it gathers is there after flush().
class ValueWriter {
 public:
  explicit ValueWriter(std::string& output) : output_(output) {}
  ValueWriter(const ValueWriter&) = delete;
  ValueWriter& operator=(const ValueWriter&) = delete;

  /// 7 bits a byte, so that small numbers are short; the last byte is the first below 0x80.
  void number(std::uint64_t number) {
    if (number < 0x80) return bytes(number, 1);  // As many counts are.
    while (number >> 56 != 0) {
      bytes((number & 0x7f) | 0x80, 1);
      number >>= 7;
    }
    const auto width = static_cast<unsigned>(std::bit_width(number | 1));
    const std::size_t count = (width + 6) / 7;
    const std::uint64_t all_but_last = 0x0080'8080'8080'8080 >> 8 * (8 - count);
    bytes(spread_groups(number) | all_but_last, count);
  }

  /// The lowest `count` bytes of a number, lowest first; at most 8.
  void bytes(std::uint64_t number, std::size_t count) {
    if (size_ + sizeof number > gathered_.size()) flush();
    store_word(gathered_.data() + size_, number);
    size_ += count;
  }

  void text(std::string_view text) {
    if (size_ + text.size() > gathered_.size()) flush();
    if (text.size() > gathered_.size()) {
      output_ += text;
    } else {
      std::copy(text.begin(), text.end(), gathered_.data() + size_);
      size_ += text.size();
    }
  }

  [[gnu::noinline]] void flush() {
    output_.append(gathered_.data(), size_);
    size_ = 0;
  }

 private:
  std::string& output_;
  std::size_t size_ = 0;
  std::array<char, 256> gathered_;  // Many small pieces cost a string less at once.
};

/// Takes numbers off the front of a value. After the first that is not there or too large, all are
/// 0 and failed() says so. The value outlives it.
class ValueReader {
 public:
  explicit ValueReader(std::string_view value) : rest_(value) {}

  /// What ValueWriter::number() wrote.
  std::uint64_t number(std::uint64_t most) {
    if (!rest_.empty() && static_cast<std::uint8_t>(rest_.front()) < 0x80) {
      const auto result = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      return result <= most ? result : fail();
    }
    if (rest_.size() >= sizeof(std::uint64_t)) {
      const std::uint64_t word = load_word(rest_.data());
      if (const std::uint64_t ends = ~word & 0x8080'8080'8080'8080; ends != 0) {
        const std::uint64_t up_to_end = ends ^ (ends - 1);
        rest_.remove_prefix(static_cast<std::size_t>(std::bit_width(up_to_end)) / 8);
        const std::uint64_t result = gather_groups(word & up_to_end);
        return result <= most ? result : fail();
      }
    }
    return long_number(most);
  }

  /// What ValueWriter::bytes() wrote; at most 8 of them.
  std::uint64_t bytes(std::size_t count) {
    const std::string_view read = text(count);
    std::uint64_t result = 0;
    for (std::size_t i = read.size(); i-- > 0;) {
      result = result << 8 | static_cast<std::uint8_t>(read[i]);
    }
    return result;
  }

  /// Empty where there are not so many bytes.
  std::string_view text(std::size_t count) {
    if (count > rest_.size()) fail();
    const std::string_view result = rest_.substr(0, count);
    rest_.remove_prefix(result.size());
    return result;
  }

  std::uint64_t fail() {
    failed_ = true;
    rest_ = {};
    return 0;
  }

  std::size_t bytes_left() const { return rest_.size(); }
  bool failed() const { return failed_; }

 private:
  // Of more than 8 bytes, or near the end.
  std::uint64_t long_number(std::uint64_t most) {
    std::uint64_t result = 0;
    for (int shift = 0; !rest_.empty() && shift < 63; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      result |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80) == 0) return result <= most ? result : fail();
    }
    return fail();
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace sluice::memcached
