#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/ascii.h"
#include "core/read_number.h"

namespace sluice::resp {

/// A decimal integer of 64 bits and nothing else: digits, with at most one '-' or '+' before them.
inline std::optional<std::int64_t> parse_integer(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && is_digit(text[1])) text.remove_prefix(1);
  std::int64_t value = 0;
  return read_number(text, value) ? std::optional(value) : std::nullopt;
}

/// As Redis reads a length: as parse_integer, but only the one way to write each number (no "007",
/// no "-0", no "+1").
inline std::optional<std::int64_t> parse_canonical_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.starts_with('+') || (digits.starts_with('0') && text != "0")) return std::nullopt;
  return parse_integer(text);
}

}  // namespace sluice::resp
