#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::memcached {

/// Appends the numbers and texts of a value to a string.
class ValueWriter {
 public:
  explicit ValueWriter(std::string& output) : output_(output) {}

  /// 7 bits a byte, lowest first, so that small numbers are short; the last byte is below 0x80.
  void number(std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) output_ += static_cast<char>((number & 0x7f) | 0x80);
    output_ += static_cast<char>(number);
  }

  /// The lowest `count` bytes of a number, lowest first; at most 8.
  void bytes(std::uint64_t number, std::size_t count) {
    assert(count <= sizeof number);
    for (; count > 0; --count, number >>= 8) output_ += static_cast<char>(number & 0xff);
  }

  void text(std::string_view text) { output_ += text; }

 private:
  std::string& output_;
};

/// Reads numbers and texts from the front of a value, which must outlive it. After a number or text
/// that is missing or too large, failed() is true and all numbers are 0.
class ValueReader {
 public:
  explicit ValueReader(std::string_view value) : rest_(value) {}

  /// What ValueWriter::number() wrote, at most 63 bits.
  std::uint64_t number(std::uint64_t most) {
    std::uint64_t result = 0;
    for (int shift = 0; !rest_.empty() && shift < 63; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      result |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return result <= most ? result : fail();
    }
    return fail();
  }

  /// What ValueWriter::bytes() wrote; at most 8 of them.
  std::uint64_t bytes(std::size_t count) {
    assert(count <= sizeof(std::uint64_t));
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
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace sluice::memcached
