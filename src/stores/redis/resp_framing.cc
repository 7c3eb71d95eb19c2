#include "stores/redis/resp_framing.h"

#include <charconv>
#include <cstdint>
#include <utility>

namespace sluice::redis {
namespace {

// A header is a type, a number and a line's end; text lines may be longer.
constexpr std::size_t kMaxTextBytes = 64 * 1024;
constexpr std::int64_t kMaxLength = 512 * 1024 * 1024;

}  // namespace

RespFraming::Found RespFraming::skip_line(std::string_view input) {
  const std::string_view rest = input.substr(at_);
  const std::size_t end = rest.substr(0, kMaxTextBytes).find("\r\n");
  if (end == std::string_view::npos) {
    return rest.size() < kMaxTextBytes ? Found::kPart : Found::kMalformed;
  }
  if (end == 0) return Found::kMalformed;
  const char type = rest[0];
  const std::size_t line = end + 2;
  switch (type) {
    case '+':
    case '-':
    case ':':
    case '_':
    case '#':
    case ',':
    case '(':
      at_ += line;
      --missing_;
      return Found::kWhole;
    case '$':
    case '=':
    case '!':
    case '*':
    case '~':
    case '>':
    case '%':
      break;
    default:
      return Found::kMalformed;
  }
  std::int64_t length = 0;
  const char* last = rest.data() + end;
  const auto read = std::from_chars(rest.data() + 1, last, length);
  if (read.ec != std::errc{} || read.ptr != last || length < -1 || length > kMaxLength) {
    return Found::kMalformed;
  }
  const auto count = static_cast<std::size_t>(length < 0 ? 0 : length);
  if (type == '$' || type == '=' || type == '!') {
    const std::size_t whole = length < 0 ? line : line + count + 2;
    if (rest.size() < whole) return Found::kPart;
    if (length >= 0 && rest.substr(line + count, 2) != "\r\n") return Found::kMalformed;
    at_ += whole;
    --missing_;
    return Found::kWhole;
  }
  at_ += line;
  missing_ += count * (type == '%' ? 2 : 1) - 1;
  return Found::kWhole;
}

std::size_t RespFraming::reply_bytes(std::string_view input) {
  while (missing_ != 0) {
    if (at_ == input.size()) return 0;
    switch (skip_line(input)) {
      case Found::kWhole:
        break;
      case Found::kPart:
        return 0;
      case Found::kMalformed:
        return kMalformed;
    }
  }
  missing_ = 1;
  return std::exchange(at_, 0);
}

}  // namespace sluice::redis
