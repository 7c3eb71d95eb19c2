#include "protocols/resp/parser.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/ascii.h"
#include "protocols/resp/number.h"

namespace sluice::resp {
namespace {

constexpr const char* kTooMany = "too many arguments, at most 64";
constexpr const char* kTooBig = "too big command, at most 65536 bytes";
static_assert(kMaxArguments == 64 && kMaxCommandBytes == 65'536);

// The bounds of Redis, unless it is configured otherwise. Beyond them, the error is that of Redis.
constexpr std::int64_t kMaxRedisCount = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxRedisBulk = 512 * 1024 * 1024;

// What Redis takes for blanks between the arguments of an inline command.
constexpr bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// What ends an unquoted argument.
constexpr bool ends_word(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// Reads what follows a backslash inside double quotes, from `at`; leaves `at` behind it.
char unescape(std::string_view line, std::size_t& at) {
  const char c = line[at++];
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    case 'x':
      if (const int byte = hex_byte(line.substr(at)); byte >= 0) {
        at += 2;
        return static_cast<char>(byte);
      }
      return c;
    default:
      return c;
  }
}

// Appends the text between the quote at `at` and the closing quote, and leaves `at` behind that.
// False if the closing quote, or a blank after it, is missing.
bool unquote(std::string_view line, std::size_t& at, std::string& out) {
  const char quote = line[at++];
  while (at < line.size() && line[at] != quote) {
    const bool escape = line[at] == '\\' && at + 1 < line.size();
    if (escape && quote == '"') {
      ++at;
      out += unescape(line, at);
    } else if (escape && line[at + 1] == '\'') {
      out += '\'';
      at += 2;
    } else {
      out += line[at++];
    }
  }
  if (at == line.size()) return false;
  ++at;
  return at == line.size() || is_blank(line[at]);
}

}  // namespace

Parser::Result Parser::next(std::string_view input) {
  // The parser never reads beyond a command's bound, so what it refuses does not depend on how many
  // bytes have arrived.
  input = input.substr(0, kMaxCommandBytes);
  if (stage_ == Stage::kStart) {
    count_ = 0;
    if (input.empty()) return Result::kNeedMore;
    stage_ = input[0] == '*' ? Stage::kCount : Stage::kInline;
  } else {
    rebase(input);
  }
  return stage_ == Stage::kInline ? next_inline(input) : next_array(input);
}

std::optional<std::string_view> Parser::next_repeated(std::string_view input) {
  if (stage_ != Stage::kStart) return std::nullopt;
  const Repetition::Found found = repetition_.find(input.substr(0, kMaxCommandBytes));
  if (found.consumed == 0) return std::nullopt;
  consumed_ = found.consumed;
  return found.second_argument;
}

Parser::Result Parser::next_array(std::string_view input) {
  if (stage_ == Stage::kCount) {
    const Result counted = read_count(input);
    if (counted != Result::kCommand) return counted;
    if (expected_ == 0) {
      repetition_.forget();
      return command(at_);
    }
    stage_ = Stage::kHeader;
  }
  return read_bulks(input);
}

// Here and below, kCommand means that this piece is complete.
Parser::Result Parser::read_count(std::string_view input) {
  static constexpr Header kCount{'*', "too big mbulk count string", "invalid multibulk length"};
  const Result header = read_header(input, kCount);
  if (header != Result::kCommand) return header;
  if (number_ > kMaxRedisCount) return fail(kCount.invalid);
  if (number_ > static_cast<std::int64_t>(kMaxArguments)) return fail(kTooMany);
  expected_ = number_ > 0 ? static_cast<std::uint32_t>(number_) : 0;
  return Result::kCommand;
}

Parser::Result Parser::read_bulks(std::string_view input) {
  static constexpr Header kBulk{'$', "too big bulk count string", "invalid bulk length"};
  while (true) {
    if (stage_ == Stage::kHeader) {
      const Result header = read_header(input, kBulk);
      if (header != Result::kCommand) return header;
      if (number_ < 0 || number_ > kMaxRedisBulk) return fail(kBulk.invalid);
      if (number_ > static_cast<std::int64_t>(kMaxCommandBytes)) return fail(kTooBig);
      stage_ = Stage::kBulk;
    }
    // Like Redis, this does not check the two bytes after a bulk string.
    const auto length = static_cast<std::size_t>(number_);
    const std::size_t end = at_ + length + 2;
    if (end > kMaxCommandBytes) return fail(kTooBig);
    if (end > input.size()) return need_more(input);
    arguments_[count_++] = {input.data() + at_, length};
    at_ = end;
    if (count_ == expected_) {
      repetition_.remember(input, arguments());
      return command(at_);
    }
    stage_ = Stage::kHeader;
  }
}

// A marker, a number, a line end. Nearly always the number has a few digits, which have all
// arrived.
inline Parser::Result Parser::read_header(std::string_view input, const Header& header) {
  constexpr std::size_t kFewDigits = 6;
  const std::size_t begin = at_ + 1;
  const std::size_t stop = std::min(input.size(), begin + kFewDigits);
  std::size_t i = begin;
  std::int64_t value = 0;
  while (i < stop && is_digit(input[i])) value = value * 10 + (input[i++] - '0');
  const bool canonical = i == begin + 1 || (i > begin && input[begin] != '0');
  if (!canonical || i + 1 >= input.size() || input[i] != '\r' || input[at_] != header.marker) {
    return read_header_slowly(input, header);
  }
  number_ = value;
  at_ = i + 2;
  return Result::kCommand;
}

Parser::Result Parser::read_header_slowly(std::string_view input, const Header& header) {
  const std::size_t line_end = input.find('\r', std::max(at_, searched_));
  if (line_end == std::string_view::npos || line_end + 1 >= input.size()) {
    constexpr std::size_t kManyDigits = 32;
    searched_ = std::min(line_end, input.size());
    if (input.size() < kMaxCommandBytes) return need_more(input);
    return fail(input.size() - at_ > kManyDigits ? header.too_long : kTooBig);
  }
  if (input[at_] != header.marker) {
    return fail(std::string("expected '$', got '") + input[at_] + "'");
  }
  const auto number = parse_canonical_integer(input.substr(at_ + 1, line_end - at_ - 1));
  if (!number) return fail(header.invalid);
  number_ = *number;
  at_ = line_end + 2;
  return Result::kCommand;
}

Parser::Result Parser::next_inline(std::string_view input) {
  repetition_.forget();
  const std::size_t line_end = input.find('\n', searched_);
  if (line_end == std::string_view::npos) {
    searched_ = input.size();
    return input.size() < kMaxCommandBytes ? need_more(input) : fail("too big inline request");
  }
  std::string_view line = input.substr(0, line_end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  switch (split(line)) {
    case Split::kUnbalanced:
      return fail("unbalanced quotes in request");
    case Split::kTooMany:
      return fail(kTooMany);
    case Split::kDone:
      break;
  }
  return command(line_end + 1);
}

Parser::Split Parser::split(std::string_view line) {
  std::string& text = inline_texts_.emplace_front();
  text.reserve(line.size());  // So that no append moves what the arguments refer to.
  for (std::size_t at = 0;;) {
    while (at < line.size() && is_blank(line[at])) ++at;
    if (at == line.size()) return Split::kDone;
    const std::size_t begin = text.size();
    while (at < line.size() && !ends_word(line[at])) {
      if (line[at] != '"' && line[at] != '\'') {
        text += line[at++];
      } else if (!unquote(line, at, text)) {
        return Split::kUnbalanced;
      } else {
        break;  // a closing quote ends the argument
      }
    }
    if (count_ == kMaxArguments) return Split::kTooMany;
    arguments_[count_++] = std::string_view(text).substr(begin);
  }
}

void Parser::release() {
  inline_texts_.clear();
}

void Parser::rebase(std::string_view input) {
  const auto base = reinterpret_cast<std::uintptr_t>(input.data());
  if (base == base_) return;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const auto offset = reinterpret_cast<std::uintptr_t>(arguments_[i].data()) - base_;
    arguments_[i] = input.substr(offset, arguments_[i].size());
  }
}

inline Parser::Result Parser::command(std::size_t consumed) {
  consumed_ = consumed;
  stage_ = Stage::kStart;
  at_ = 0;
  searched_ = 0;
  return Result::kCommand;
}

Parser::Result Parser::need_more(std::string_view input) {
  base_ = reinterpret_cast<std::uintptr_t>(input.data());
  return Result::kNeedMore;
}

Parser::Result Parser::fail(std::string_view error) {
  error_ = "ERR Protocol error: ";
  error_ += error;
  return Result::kError;
}

}  // namespace sluice::resp
