#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace sluice {

/// Reads the number, decimal or to another base, that the text consists of. False if the text has
/// anything else, or if the number does not fit; `number` then has no meaning.
template <class Number>
bool read_number(std::string_view text, Number& number, int base = 10) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number, base);
  return read.ec == std::errc{} && read.ptr == end;
}

}  // namespace sluice
