#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// Appends the number in decimal; a double in the fewest digits that are read back as the same.
template <class Number>
void append_number(std::string& output, Number number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  output.append(digits.data(), end);
}

/// "1 key", "2 keys".
inline std::string counted(std::uint64_t number, std::string_view thing) {
  return std::to_string(number) + " " + std::string(thing) + (number == 1 ? "" : "s");
}

}  // namespace sluice
