#include "core/safe_text.h"

#include <cstdint>

#include "core/ascii.h"
#include "core/utf8.h"

namespace sluice {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  /// 0 if the text does not begin with valid UTF-8.
  std::size_t bytes = 0;
};

/// The code point at the start of `text`, which is not empty.
CodePoint decode(std::string_view text) {
  const std::size_t bytes = utf8_character_bytes(text);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (bytes <= 1) return {byte(0), bytes};
  std::uint32_t value = byte(0) & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) value = (value << 6) | (byte(i) & 0x3FU);
  return {value, bytes};
}

/// Whether a terminal might interpret or hide the character.
bool is_unsafe(std::uint32_t value) {
  return value < 0x20 || (value >= 0x7F && value < 0xA0) || value == 0xAD || value == 0x61C ||
         (value >= 0x200B && value <= 0x200F) || (value >= 0x2028 && value <= 0x202E) ||
         (value >= 0x2060 && value <= 0x206F) || value == 0xFEFF || value >= 0xE0000;
}

void append_json_escape(std::string& out, std::uint32_t value) {
  if (value <= 0xFFFF) {
    out += "\\u" + hex(value, 4);
    return;
  }
  value -= 0x10000;  // A pair of surrogates.
  out += "\\u" + hex(0xD800 + (value >> 10), 4) + "\\u" + hex(0xDC00 + (value & 0x3FF), 4);
}

}  // namespace

std::string printable(std::string_view text, std::size_t columns) {
  std::string out;
  std::size_t used = 0;
  // Where to cut the text so that the ellipsis fits.
  std::size_t cut = 0;
  while (!text.empty()) {
    const CodePoint point = decode(text);
    const std::size_t bytes = point.bytes == 0 ? 1 : point.bytes;
    std::string piece(text.substr(0, bytes));
    std::size_t width = 1;
    if (point.bytes == 0 || (is_unsafe(point.value) && point.value < 0x80)) {
      piece = "\\x" + hex(static_cast<unsigned char>(text[0]), 2);
      width = piece.size();
    } else if (is_unsafe(point.value)) {
      piece = "\\u{" + hex(point.value, point.value > 0xFFFF ? 6 : 4) + "}";
      width = piece.size();
    } else if (point.value == '\\') {
      piece = "\\\\";
      width = 2;
    }
    if (used + width > columns) {
      out.resize(cut);
      return out + "…";
    }
    out += piece;
    used += width;
    if (used < columns) cut = out.size();
    text.remove_prefix(bytes);
  }
  return out;
}

std::string printable_sentence(std::string_view text) {
  std::string out;
  for (std::size_t end; (end = text.find('\\')) != std::string_view::npos;) {
    out += printable(text.substr(0, end), std::string::npos) + '\\';
    text.remove_prefix(end + 1);
  }
  return out + printable(text, std::string::npos);
}

std::string without_url(std::string_view text) {
  constexpr std::string_view kSlashes = "://";
  const std::size_t at = text.find(kSlashes);
  if (at == std::string_view::npos) return std::string(text);
  return std::string(text.substr(0, at + kSlashes.size())) + "***";
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = decode(text);
    if (point.bytes == 0 || is_unsafe(point.value)) return false;
    text.remove_prefix(point.bytes);
  }
  return true;
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::uint32_t kReplacement = 0xFFFD;
  out += '"';
  std::size_t plain = 0;  // [plain, i) needs no change.
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const bool is_plain_ascii = c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
    const CodePoint point = is_plain_ascii ? CodePoint{0x20, 1} : decode(text.substr(i));
    const bool is_quoted = c == '"' || c == '\\';
    if (point.bytes != 0 && !is_unsafe(point.value) && !is_quoted) {
      i += point.bytes;
      continue;
    }
    out.append(text, plain, i - plain);
    if (is_quoted) {
      out += {'\\', c};
    } else {
      append_json_escape(out, point.bytes == 0 ? kReplacement : point.value);
    }
    i += point.bytes == 0 ? 1 : point.bytes;
    plain = i;
  }
  out.append(text, plain);
  out += '"';
}

}  // namespace sluice
