#include "stores/redis/resp.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/read_number.h"

namespace sluice::redis {
namespace {

constexpr int kMaxDepth = 8;
// A map of 16,384 slots, each with ten nodes, has fewer.
constexpr std::size_t kMaxElements = std::size_t{1} << 20;
constexpr std::size_t kMaxLineBytes = std::size_t{64} * 1024;
constexpr std::int64_t kMaxLength = std::int64_t{512} * 1024 * 1024;

// The value at the front of some bytes; of an array, its first line.
struct Value {
  std::size_t bytes = 0;  // Its length; 0 if more has to come, Framing::kMalformed if it is none.
  char type = 0;
  std::string_view text = {};
  std::int64_t number = 0;  // An integer, or how many bytes or elements there are; -1: no value.
};

Value read_value(std::string_view rest) {
  constexpr Value kNone{.bytes = Framing::kMalformed};
  const std::size_t end = rest.substr(0, kMaxLineBytes).find("\r\n");
  if (end == std::string_view::npos) return rest.size() < kMaxLineBytes ? Value() : kNone;
  if (end == 0) return kNone;
  const char type = rest[0];
  const std::string_view line = rest.substr(1, end - 1);
  if (type == '+' || type == '-') return {.bytes = end + 2, .type = type, .text = line};
  Value value{.bytes = end + 2, .type = type};
  if (!read_number(line, value.number)) return kNone;
  if (type == ':') return value;
  const bool is_length = value.number >= -1 && value.number <= kMaxLength;
  if ((type != '$' && type != '*') || !is_length) return kNone;
  if (type == '*' || value.number == -1) return value;
  const auto size = static_cast<std::size_t>(value.number);
  const std::size_t begin = std::exchange(value.bytes, value.bytes + size + 2);
  if (rest.size() < value.bytes) return {};
  if (rest.substr(begin + size, 2) != "\r\n") return kNone;
  value.text = rest.substr(begin, size);
  return value;
}

// Takes a reply off the front of `rest`; false if there is none.
bool take_reply(std::string_view& rest, Reply& reply, std::size_t& elements_left, int depth) {
  const Value value = read_value(rest);
  if (depth > kMaxDepth || value.bytes == 0 || value.bytes == Framing::kMalformed) return false;
  rest.remove_prefix(value.bytes);
  reply.type = value.type;
  reply.text = value.text;
  if (value.type == ':') reply.integer = value.number;
  if (value.type != '*' || value.number <= 0) return true;
  const auto count = static_cast<std::size_t>(value.number);
  // Each element takes at least three bytes.
  if (count > rest.size() / 3 || count > elements_left) return false;
  elements_left -= count;
  reply.elements.resize(count);
  for (Reply& element : reply.elements) {
    if (!take_reply(rest, element, elements_left, depth + 1)) return false;
  }
  return true;
}

// "<type><number>\r\n".
void append_line(std::string& output, char type, std::size_t number) {
  std::array<char, 24> line{type};
  char* const end = std::to_chars(line.data() + 1, line.data() + line.size(), number).ptr;
  output.append(line.data(), end);
  output += "\r\n";
}

}  // namespace

std::optional<Reply> read_reply(std::string_view bytes) {
  Reply reply;
  std::size_t elements_left = kMaxElements;
  if (!take_reply(bytes, reply, elements_left, 1) || !bytes.empty()) return std::nullopt;
  return reply;
}

void append_array(std::string& output, std::size_t elements) {
  append_line(output, '*', elements);
}

void append_text(std::string& output, std::string_view text) {
  append_line(output, '$', text.size());
  output += text;
  output += "\r\n";
}

std::string command_of(std::span<const std::string_view> arguments) {
  std::string command;
  append_array(command, arguments.size());
  for (const std::string_view argument : arguments) append_text(command, argument);
  return command;
}

std::size_t RespFraming::reply_bytes(std::string_view input) {
  for (; missing_ != 0; --missing_) {
    const Value value = read_value(input.substr(at_));
    if (value.bytes == 0 || value.bytes == kMalformed) return value.bytes;
    at_ += value.bytes;
    if (value.type == '*' && value.number > 0) missing_ += static_cast<std::size_t>(value.number);
  }
  missing_ = 1;
  return std::exchange(at_, 0);
}

namespace {

using Kind = ServerError::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 11> kKinds{{
    {"MOVED", Kind::kMoved},
    {"ASK", Kind::kAsk},
    {"TRYAGAIN", Kind::kTryAgain},
    {"CLUSTERDOWN", Kind::kClusterDown},
    {"LOADING", Kind::kLoading},
    {"MASTERDOWN", Kind::kLoading},
    {"BUSY", Kind::kBusy},
    {"READONLY", Kind::kReadOnly},
    {"NOSCRIPT", Kind::kNoScript},
    {"NOAUTH", Kind::kNoAuth},
    {"NOPERM", Kind::kNoPerm},
}};

// A cluster that prefers host names (cluster-preferred-endpoint-type) calls a node without one so.
constexpr std::string_view kNoName = "?";

// "3999 127.0.0.1:6381", the host perhaps empty or an IPv6 address.
bool read_direction(std::string_view text, ServerError& error) {
  const std::size_t space = text.find(' ');
  const std::size_t colon = text.rfind(':');
  if (space == text.npos || colon == text.npos || colon < space) return false;
  error.host = text.substr(space + 1, colon - space - 1);
  return is_host(error.host) && read_number(text.substr(0, space), error.slot) &&
         error.slot < kSlots && read_number(text.substr(colon + 1), error.port);
}

bool is_slot(const Reply& reply) {
  return reply.type == ':' && reply.integer >= 0 &&
         reply.integer < static_cast<std::int64_t>(kSlots);
}

// The host of a node: [host, port, id, [name, value, ...] ...]. A node without a name may have an
// address there: "ip".
std::string_view host_of(const std::vector<Reply>& node) {
  if (node[0].text != kNoName || node.size() < 4) return node[0].text;
  const std::vector<Reply>& metadata = node[3].elements;
  for (std::size_t i = 0; i + 1 < metadata.size(); i += 2) {
    if (metadata[i].text == "ip") return metadata[i + 1].text;
  }
  return kNoName;
}

// All but the text.
ServerError classify(std::string_view text) {
  // An error from within a script names the place in it. Since Redis 7 it keeps the code of the
  // command that has failed.
  if (text.find("@user_script") != text.npos) return {.may_be_executed = true};
  const std::size_t space = text.find(' ');
  const std::string_view word = text.substr(0, space);
  for (const auto& [name, kind] : kKinds) {
    if (word != name) continue;
    // If the user may not run the command at all, no request can succeed.
    if (kind == Kind::kNoPerm && text.find(" to run the ") != text.npos) return {};
    ServerError error{.kind = kind};
    if (kind != Kind::kMoved && kind != Kind::kAsk) return error;
    if (space == text.npos || !read_direction(text.substr(space + 1), error)) return {};
    if (error.host == kNoName || error.port == 0) return {.kind = Kind::kClusterDown};
    return error;
  }
  return {.may_be_executed = word == "ERR"};
}

}  // namespace

bool is_host(std::string_view name) {
  constexpr std::size_t kMaxBytes = 255;  // With more, a TLS connection cannot be made.
  return name.size() <= kMaxBytes &&
         std::ranges::none_of(name, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

ServerError read_server_error(std::string_view text) {
  ServerError error = classify(text);
  error.text = text.substr(0, text.find(", with args beginning with"));
  return error;
}

std::optional<std::vector<SlotRange>> read_cluster_slots(const Reply& reply) {
  if (reply.type != '*') return std::nullopt;
  std::vector<SlotRange> ranges;
  for (const Reply& range : reply.elements) {
    // First, last, the primary as [host, port, id ...], then its replicas.
    if (range.elements.size() < 3 || !is_slot(range.elements[0]) || !is_slot(range.elements[1])) {
      return std::nullopt;
    }
    const std::vector<Reply>& primary = range.elements[2].elements;
    if (primary.size() < 2 || primary[1].type != ':' || primary[1].integer < 0 ||
        primary[1].integer > 65'535) {
      return std::nullopt;
    }
    const std::string_view host = host_of(primary);
    if (!is_host(host)) return std::nullopt;
    if (host == kNoName || primary[1].integer == 0) continue;
    ranges.push_back({.first = static_cast<std::uint16_t>(range.elements[0].integer),
                      .last = static_cast<std::uint16_t>(range.elements[1].integer),
                      .host = std::string(host),
                      .port = static_cast<std::uint16_t>(primary[1].integer)});
  }
  return ranges;
}

}  // namespace sluice::redis
