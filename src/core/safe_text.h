#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

/// Makes untrusted text safe for a terminal: control characters, invisible and direction-changing
/// ones and bytes that are not UTF-8 become \xNN or \u{NNNN}, a backslash becomes two. Text longer
/// than `columns` (each code point counts as one) is cut and ends with an ellipsis.
std::string printable(std::string_view text, std::size_t columns);
/// The same for a whole sentence, which may quote what printable() has returned: its backslashes
/// stay single.
std::string printable_sentence(std::string_view text);

/// Whether the text is safe for a terminal: printable() changes only its backslashes and its
/// length.
bool is_printable(std::string_view text);

/// The text up to the first "://" in it, with "***" for the rest, which may hold a password.
std::string without_url(std::string_view text);

/// Appends `text` as a JSON string with its quotes. What a terminal might interpret or hide is
/// escaped. A byte that is not part of valid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace sluice
