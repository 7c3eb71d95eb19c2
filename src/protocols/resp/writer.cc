#include "protocols/resp/writer.h"

#include <array>
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

// Few numbers in replies have more digits, and std::to_chars takes as long as all the rest.
// REQUIRES: 100 <= number < 10'000.
char* put_below_10000(char* to, unsigned number) {
  const unsigned upper = number / 100;
  if (upper < 10) {
    *to++ = static_cast<char>('0' + upper);
  } else {
    std::memcpy(to, &kPairs[2 * upper], 2);
    to += 2;
  }
  std::memcpy(to, &kPairs[2 * (number % 100)], 2);
  return to + 2;
}

}  // namespace

char* put_long_integer_line(char* to, std::int64_t number) {
  if (number >= 100 && number < 10'000) {
    to = put_below_10000(to, static_cast<unsigned>(number));
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
