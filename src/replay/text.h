#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/instant.h"

namespace sluice::replay {

/// How many columns an error message shows of a field, and of an argument.
inline constexpr std::size_t kFieldColumns = 40;
inline constexpr std::size_t kTypedColumns = 200;

/// Makes untrusted text safe for a terminal: control characters, invisible and direction-changing
/// ones and bytes that are not UTF-8 become \xNN or \u{NNNN}, a backslash becomes two. Text longer
/// than `columns` (each code point counts as one) is cut and ends with an ellipsis.
std::string printable(std::string_view text, std::size_t columns);

/// Appends `text` as a JSON string with its quotes. A byte that is not part of valid UTF-8 becomes
/// U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// Appends the number in decimal.
void append_number(std::string& out, std::int64_t number);
void append_number(std::string& out, std::uint64_t number);

/// "1,234,567".
std::string grouped(std::uint64_t number);

/// "15.2 %". REQUIRES: part <= whole; 0 of 0 is "0.0 %".
std::string percent(std::uint64_t part, std::uint64_t whole);

/// "2015-05-19 09:05:31", UTC; a fraction of a second is dropped.
std::string utc_second(Instant time_ns);

}  // namespace sluice::replay
