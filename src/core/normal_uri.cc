#include "core/normal_uri.h"

#include <algorithm>
#include <cstddef>

#include "core/ascii.h"

namespace sluice {
namespace {

// Whether a segment of a path may have the character itself ("pchar" in RFC 3986).
constexpr bool is_in_segments(char c) {
  return is_in_names(c) || std::string_view("~!$&'()*+,;=:@").find(c) != std::string_view::npos;
}

// Appends the first character of the text, and returns how many bytes it has there.
std::size_t append_character(std::string_view text, std::string& output) {
  const int byte = text[0] == '%' ? hex_byte(text.substr(1)) : -1;
  const char c = byte < 0 ? text[0] : static_cast<char>(byte);
  if (is_in_segments(c)) {
    output += c;
  } else {
    const auto value = static_cast<unsigned char>(c);
    output.append({'%', to_capital(kHexDigits[value >> 4]), to_capital(kHexDigits[value & 0xF])});
  }
  return byte < 0 ? 1 : 3;
}

// Removes the last segment, which begins at `segment`, if it is "." or "..", and what ".." names.
// `begin` is the first slash of the path.
void resolve_dots(std::size_t begin, std::size_t segment, std::string& output) {
  const std::string_view last = std::string_view(output).substr(segment);
  const bool is_parent = last == "..";
  if (last != "." && !is_parent) return;
  if (is_parent && segment > begin + 1) segment = output.rfind('/', segment - 2) + 1;
  output.resize(segment);
}

struct Authority {
  std::size_t begin = 0;
  std::size_t end = 0;  // There the path begins.
};

// Where the authority of a whole URL stands in the target; in a path, nowhere.
Authority find_authority(std::string_view target) {
  const std::size_t scheme = target.starts_with('/') ? target.npos : target.find("://");
  if (scheme == target.npos) return {};
  const std::size_t begin = scheme + 3;
  return {begin, std::min(target.find_first_of("/?#", begin), target.size())};
}

}  // namespace

void append_normal_host(std::string_view authority, std::string& output) {
  const std::size_t name_end = authority.starts_with('[') ? authority.find(']') : 0;
  std::string_view host = authority.substr(0, authority.find(':', name_end));
  if (host.ends_with('.')) host.remove_suffix(1);
  for (const char c : host) output += to_small(c);
}

std::string_view authority_of(std::string_view target) {
  const Authority authority = find_authority(target);
  return target.substr(authority.begin, authority.end - authority.begin);
}

void append_normal_path(std::string_view target, std::string& output) {
  target.remove_prefix(find_authority(target).end);
  std::string_view path = target.substr(0, target.find_first_of("?#"));
  if (!path.empty() && path[0] != '/') {
    output += path;
    return;
  }
  const std::size_t begin = output.size();
  output += '/';
  for (;;) {
    path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
    const std::size_t segment = output.size();
    while (!path.empty() && path[0] != '/') path.remove_prefix(append_character(path, output));
    resolve_dots(begin, segment, output);
    if (path.empty()) return;
    if (!output.ends_with('/')) output += '/';
  }
}

}  // namespace sluice
