#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/ascii.h"

namespace sluice::resp {

/// How much of a client's text an error quotes at most, as in Redis.
inline constexpr std::size_t kMaxQuotedBytes = 128;

/// A command's name as Redis writes it in errors and descriptions.
inline std::string in_small_letters(std::string_view capitals) {
  std::string text(capitals);
  std::transform(text.begin(), text.end(), text.begin(), to_small);
  return text;
}

/// Whether the texts are the same in ASCII but for case. `capitals` has no small letters.
inline bool is_word(std::string_view text, std::string_view capitals) {
  return text.size() == capitals.size() &&
         (text == capitals || std::equal(text.begin(), text.end(), capitals.begin(),
                                         [](char a, char b) { return to_capital(a) == b; }));
}

/// The part of an argument that an error quotes, in quotes.
inline std::string quoted(std::string_view argument) {
  return "'" + std::string(argument.substr(0, kMaxQuotedBytes)) + "'";
}

}  // namespace sluice::resp
