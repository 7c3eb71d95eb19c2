#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/limit_syntax.h"

namespace sluice::memcached {

/// Appends a number, 7 bits a byte, so that small ones are short.
inline void append_number(std::string& output, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) output += static_cast<char>((number & 0x7f) | 0x80);
  output += static_cast<char>(number);
}

/// Appends the lowest `bytes` bytes of a number, lowest first.
inline void append_bytes(std::string& output, std::uint64_t number, std::size_t bytes) {
  for (; bytes > 0; --bytes, number >>= 8) output += static_cast<char>(number & 0xff);
}

/// Takes numbers off the front of a value. After the first that is not there or too large, all are
/// 0 and failed() says so. The value outlives it.
class ValueReader {
 public:
  explicit ValueReader(std::string_view value) : rest_(value) {}

  /// What append_number() wrote.
  std::uint64_t number(std::uint64_t most) {
    std::uint64_t result = 0;
    for (int shift = 0; !rest_.empty() && shift < 63; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      result |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80) == 0) return result <= most ? result : fail();
    }
    return fail();
  }

  /// What append_bytes() wrote; at most 8 of them.
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
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace sluice::memcached
