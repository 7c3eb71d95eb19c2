#include "limiter/structured_field.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>

namespace sluice {

std::string structured_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character < 0x20 || character > 0x7e) {
      throw std::invalid_argument("a name in an HTTP header has only printable ASCII characters");
    }
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character;
  }
  return quoted + '"';
}

std::string structured_integer(std::int64_t value) {
  assert(value >= 0);
  return std::to_string(std::min(value, kMaxStructuredInteger));
}

}  // namespace sluice
