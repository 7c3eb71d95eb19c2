#include "protocols/http/query.h"

#include <algorithm>
#include <optional>
#include <string>

#include "core/ascii.h"
#include "protocols/http/message.h"

namespace sluice::http {
namespace {

/// As decode_percent(), but nothing if '%' is not followed by two digits.
std::optional<std::string_view> try_decode(std::string_view text, bool is_query, Arena& arena) {
  if (text.find_first_of(is_query ? "%+" : "%") == std::string_view::npos) return text;
  char* const begin = arena.allocate(text.size());
  char* to = begin;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && is_query) {
      *to++ = ' ';
    } else if (text[i] == '%') {
      const int byte = hex_byte(text.substr(i + 1));
      if (byte < 0) return std::nullopt;
      *to++ = static_cast<char>(byte);
      i += 2;
    } else {
      *to++ = text[i];
    }
  }
  return std::string_view(begin, static_cast<std::size_t>(to - begin));
}

}  // namespace

bool QueryReader::next(std::string_view& name, std::string_view& value) {
  while (!rest_.empty()) {
    const std::size_t end = std::min(rest_.find('&'), rest_.size());
    const std::string_view pair = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    name = pair.substr(0, equals);
    value = pair.substr(std::min(equals + 1, pair.size()));
    if (!name.empty()) return true;
  }
  return false;
}

std::string_view decode_percent(std::string_view text, bool is_query, Arena& arena) {
  const auto decoded = try_decode(text, is_query, arena);
  if (decoded) return *decoded;
  throw Problem{.detail = "a '%' of the target is not followed by two hexadecimal digits"};
}

void refuse_twice(std::string_view name) {
  throw Problem{.detail = "the parameter \"" + std::string(name) + "\" is there twice"};
}

std::string_view query_value(std::string_view query, std::string_view name, Arena& arena) {
  QueryReader parameters(query);
  std::string_view its_name;
  std::string_view value;
  std::optional<std::string_view> found;
  while (parameters.next(its_name, value)) {
    if (try_decode(its_name, true, arena) != name) continue;
    if (found) refuse_twice(name);
    found = decode_percent(value, true, arena);
  }
  return found.value_or(std::string_view());
}

}  // namespace sluice::http
