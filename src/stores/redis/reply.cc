#include "stores/redis/reply.h"

#include <array>
#include <charconv>
#include <string>

namespace sluice::redis {
namespace {

constexpr int kMaxDepth = 8;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool read(Reply& reply, int depth) {
    const std::size_t end = rest_.find("\r\n");
    if (depth > kMaxDepth || end == std::string_view::npos || end == 0) return false;
    const char type = rest_[0];
    const std::string_view line = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 2);
    switch (type) {
      case '+':
        reply = {.kind = Reply::Kind::kText, .text = line};
        return true;
      case '-':
        reply = {.kind = Reply::Kind::kError, .text = line};
        return true;
      case ':':
        reply.kind = Reply::Kind::kInteger;
        return read_number(line, reply.integer);
      case '$':
        return read_bulk(reply, line);
      case '*':
        return read_array(reply, line, depth);
      default:
        return false;
    }
  }

  bool at_end() const { return rest_.empty(); }

 private:
  static bool read_number(std::string_view text, std::int64_t& number) {
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    return read.ec == std::errc{} && read.ptr == end;
  }

  bool read_bulk(Reply& reply, std::string_view line) {
    std::int64_t bytes = 0;
    if (!read_number(line, bytes) || bytes < -1) return false;
    if (bytes == -1) return true;
    const auto size = static_cast<std::size_t>(bytes);
    if (rest_.size() < size + 2 || rest_.substr(size, 2) != "\r\n") return false;
    reply = {.kind = Reply::Kind::kText, .text = rest_.substr(0, size)};
    rest_.remove_prefix(size + 2);
    return true;
  }

  bool read_array(Reply& reply, std::string_view line, int depth) {
    std::int64_t count = 0;
    if (!read_number(line, count) || count < -1) return false;
    if (count == -1) return true;
    // Each element takes at least three bytes.
    if (static_cast<std::size_t>(count) > rest_.size() / 3) return false;
    reply.kind = Reply::Kind::kArray;
    reply.elements.resize(static_cast<std::size_t>(count));
    for (Reply& element : reply.elements) {
      if (!read(element, depth + 1)) return false;
    }
    return true;
  }

  std::string_view rest_;
};

// "<type><number>\r\n".
void append_line(std::string& output, char type, std::size_t number) {
  std::array<char, 24> line{type};
  char* const end = std::to_chars(line.data() + 1, line.data() + line.size(), number).ptr;
  output.append(line.data(), end);
  output += "\r\n";
}

}  // namespace

std::optional<Reply> read_reply(std::string_view bytes) {
  Reader reader(bytes);
  Reply reply;
  if (!reader.read(reply, 1) || !reader.at_end()) return std::nullopt;
  return reply;
}

void append_command(std::string& output, std::initializer_list<std::string_view> arguments) {
  append_command(output, std::span(arguments.begin(), arguments.size()));
}

void append_command(std::string& output, std::span<const std::string_view> arguments) {
  append_line(output, '*', arguments.size());
  for (const std::string_view argument : arguments) {
    append_line(output, '$', argument.size());
    output += argument;
    output += "\r\n";
  }
}

}  // namespace sluice::redis
