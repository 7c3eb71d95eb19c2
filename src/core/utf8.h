#pragma once

#include <cassert>
#include <cstddef>
#include <string_view>

namespace sluice {

/// The number of bytes of the UTF-8 character that the text begins with; 0 if it begins with none.
/// REQUIRES: !text.empty().
inline std::size_t utf8_character_bytes(std::string_view text) {
  assert(!text.empty());
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 2) return 0;
  }
  // The second byte excludes overlong forms, surrogates and what is beyond U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return bytes;
}

}  // namespace sluice
