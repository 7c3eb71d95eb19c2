#include "replay/text.h"

#include <array>
#include <cassert>
#include <charconv>
#include <chrono>

#include "core/arithmetic.h"

namespace sluice::replay {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  /// 0 if the bytes are not valid UTF-8.
  std::size_t bytes = 0;
};

/// The code point at the start of `text`, which is not empty. Rejects overlong forms, surrogates
/// and code points beyond U+10FFFF, as RFC 3629 does.
CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  std::uint32_t value = first & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[bytes] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
  return {value, bytes};
}

/// Whether a terminal might interpret or hide the character.
bool is_unsafe(std::uint32_t value) {
  return value < 0x20 || (value >= 0x7F && value < 0xA0) || value == 0xAD || value == 0x61C ||
         (value >= 0x200B && value <= 0x200F) || (value >= 0x2028 && value <= 0x202E) ||
         (value >= 0x2060 && value <= 0x206F) || value == 0xFEFF || value >= 0xE0000;
}

std::string hex(std::uint32_t value, std::size_t digits) {
  std::string out(digits, '0');
  for (std::size_t i = digits; i > 0; --i, value >>= 4) {
    out[i - 1] = "0123456789abcdef"[value & 0xF];
  }
  return out;
}

void append_padded(std::string& out, std::int64_t number) {
  if (number < 10) out += '0';
  append_number(out, number);
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

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // [plain, i) needs no change.
  std::size_t i = 0;
  const auto flush = [&] { out.append(text, plain, i - plain); };
  while (i < text.size()) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    std::size_t bytes = 1;
    if (c >= 0x80) {
      bytes = decode(text.substr(i)).bytes;
      if (bytes != 0) {
        i += bytes;
        continue;
      }
      flush();
      out += "\\ufffd";
      bytes = 1;
    } else {
      flush();
      if (c == '"' || c == '\\') {
        out += '\\';
        out += static_cast<char>(c);
      } else {
        out += "\\u" + hex(c, 4);
      }
    }
    i += bytes;
    plain = i;
  }
  flush();
  out += '"';
}

void append_number(std::string& out, std::int64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

std::string grouped(std::uint64_t number) {
  std::string out;
  append_number(out, number);
  for (std::size_t i = out.size(); i > 3; i -= 3) out.insert(i - 3, 1, ',');
  return out;
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  assert(part <= whole);
  std::uint64_t tenths = 0;
  if (whole != 0) {
    const Uint128 scaled = Uint128{part} * 1000 + whole / 2;
    tenths = static_cast<std::uint64_t>(scaled / whole);
    // Do not round few denials to 0 %, nor few admissions to none.
    if (tenths == 0 && part > 0) return "<0.1 %";
    if (tenths == 1000 && part < whole) return ">99.9 %";
  }
  std::string out;
  append_number(out, tenths / 10);
  out += '.';
  append_number(out, tenths % 10);
  return out + " %";
}

std::string utc_second(Instant time_ns) {
  const std::chrono::sys_seconds second{std::chrono::seconds(time_ns / 1'000'000'000)};
  const auto day = std::chrono::floor<std::chrono::days>(second);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{second - day};
  std::string out;
  append_number(out, std::int64_t{static_cast<int>(date.year())});
  out += '-';
  append_padded(out, static_cast<unsigned>(date.month()));
  out += '-';
  append_padded(out, static_cast<unsigned>(date.day()));
  out += ' ';
  append_padded(out, clock.hours().count());
  out += ':';
  append_padded(out, clock.minutes().count());
  out += ':';
  append_padded(out, clock.seconds().count());
  return out;
}

}  // namespace sluice::replay
