#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_letter_or_digit(char c) {
  return is_letter(c) || is_digit(c);
}
/// Whether the names of limits, users and hosts may have it.
constexpr bool is_in_names(char c) {
  return is_letter_or_digit(c) || c == '_' || c == '.' || c == '-';
}
constexpr char to_capital(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
constexpr char to_small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

/// The byte that the text's first two hexadecimal digits are; -1 if it does not begin with two.
constexpr int hex_byte(std::string_view text) {
  if (text.size() < 2) return -1;
  const auto high = kHexDigits.find(to_small(text[0]));
  const auto low = kHexDigits.find(to_small(text[1]));
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(high * 16 + low);
}
/// The last so many hexadecimal digits of the value.
inline std::string hex(std::uint64_t value, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i > 0; --i, value >>= 4) text[i - 1] = kHexDigits[value & 0xF];
  return text;
}

}  // namespace sluice
