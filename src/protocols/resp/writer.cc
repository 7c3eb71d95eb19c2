#include "protocols/resp/writer.h"

#include <algorithm>
#include <cassert>
#include <charconv>

#include "core/safe_text.h"

namespace sluice::resp {

char* put_long_integer_line(char* to, std::int64_t number) {
  assert(number < 0 || number >= 100);
  to = std::to_chars(to, to + kMaxIntegerBytes, number).ptr;
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
  assert(text.find_first_of("\r\n") == text.npos);
  output_ += '+';
  output_ += text;
  output_ += "\r\n";
}

void Writer::error(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](char c) { return c == '\r' || c == '\n'; }, ' ');
  output_.append("-").append(printable_sentence(line)).append("\r\n");
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
