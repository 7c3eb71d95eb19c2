#include "protocols/resp/writer.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstring>

namespace sluice::resp {

namespace {

// "00" to "99".
constexpr auto kPairs = [] {
  std::array<char, 200> pairs{};
  for (unsigned i = 0; i < 100; ++i) {
    pairs[2 * i] = static_cast<char>('0' + i / 10);
    pairs[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return pairs;
}();

constexpr std::uint64_t kZeros = 0x3030'3030'3030'3030;  // "00000000"

// Eight digits, of which the leading zeros are then passed over without a branch: how many there
// are nobody could predict. std::to_chars takes as long as all the rest. REQUIRES: number < 10^8.
char* put_up_to_8_digits(char* to, std::uint32_t number) {
  const auto pair = [](std::uint32_t value) -> std::uint64_t {
    std::uint16_t two = 0;
    std::memcpy(&two, &kPairs[2 * value], sizeof two);
    return two;
  };
  const std::uint32_t upper = number / 10'000;
  const std::uint32_t lower = number % 10'000;
  const std::uint64_t digits = pair(upper / 100) | pair(upper % 100) << 16 |
                               pair(lower / 100) << 32 | pair(lower % 100) << 48;
  const int zeros = std::countr_zero(digits ^ kZeros) / 8;
  // All eight are copied, as that is one instruction: who writes has room for them.
  const std::uint64_t shown = digits >> (8 * zeros);
  std::memcpy(to, &shown, sizeof shown);
  return to + (8 - zeros);
}

}  // namespace

char* put_long_integer_line(char* to, std::int64_t number) {
  constexpr bool kFirstIsLowest = std::endian::native == std::endian::little;
  if (kFirstIsLowest && number > 0 && number < 100'000'000) {
    to = put_up_to_8_digits(to, static_cast<std::uint32_t>(number));
  } else {
    to = std::to_chars(to, to + kMaxIntegerBytes, number).ptr;
  }
  *to++ = '\r';
  *to++ = '\n';
  return to;
}

void Writer::header(char marker, std::int64_t number) {
  char line[1 + kMaxIntegerBytes];
  line[0] = marker;
  output_.append(line, put_integer_line(line + 1, number));
}

void Writer::simple(std::string_view text) {
  output_ += '+';
  output_ += text;
  output_ += "\r\n";
}

void Writer::error(std::string_view text) {
  output_ += '-';
  for (const char c : text) output_ += c == '\r' || c == '\n' ? ' ' : c;
  output_ += "\r\n";
}

void Writer::integer(std::int64_t number) {
  header(':', number);
}

void Writer::bulk(std::string_view text) {
  header('$', static_cast<std::int64_t>(text.size()));
  output_ += text;
  output_ += "\r\n";
}

void Writer::null() {
  output_ += is_resp3() ? "_\r\n" : "$-1\r\n";
}

void Writer::array(std::size_t size) {
  header('*', static_cast<std::int64_t>(size));
}

void Writer::map(std::size_t pairs) {
  if (!is_resp3()) return array(2 * pairs);
  header('%', static_cast<std::int64_t>(pairs));
}

void Writer::set(std::size_t size) {
  if (!is_resp3()) return array(size);
  header('~', static_cast<std::int64_t>(size));
}

void Writer::verbatim(std::string_view text) {
  if (!is_resp3()) return bulk(text);
  constexpr std::string_view kFormat = "txt:";
  header('=', static_cast<std::int64_t>(kFormat.size() + text.size()));
  output_ += kFormat;
  output_ += text;
  output_ += "\r\n";
}

}  // namespace sluice::resp
