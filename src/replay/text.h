#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/instant.h"
#include "core/safe_text.h"

namespace sluice::replay {

/// How many columns an error message shows of a field, and of an argument.
inline constexpr std::size_t kFieldColumns = 40;
inline constexpr std::size_t kTypedColumns = 200;

/// Spaces before or after the text, up to `columns`. A code point counts as one column.
std::string padded_left(std::string_view text, std::size_t columns);
std::string padded_right(std::string text, std::size_t columns);

/// Styles of a terminal.
inline constexpr std::string_view kBold = "\x1b[1m";
inline constexpr std::string_view kFaint = "\x1b[2m";
inline constexpr std::string_view kRed = "\x1b[31m";

/// The text in this style, if `is_coloured`; an empty text stays empty.
std::string styled(const std::string& text, std::string_view style, bool is_coloured);

/// "1,234,567".
std::string grouped(std::uint64_t number);

/// "1 key", "1,234 keys".
std::string count_of(std::uint64_t count, std::string_view thing);

/// "15.2 %". REQUIRES: part <= whole; 0 of 0 is "0.0 %".
std::string percent(std::uint64_t part, std::uint64_t whole);

/// "17 h 1 min", the two largest units.
std::string rough_duration(std::int64_t ns);

/// "2015-05-19 09:05:31", UTC; a fraction of a second is dropped.
std::string utc_second(Instant time_ns);

}  // namespace sluice::replay
