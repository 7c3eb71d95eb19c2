#include "stores/memcached/meta_protocol.h"

#include <cassert>
#include <charconv>

#include "core/number_text.h"
#include "core/read_number.h"

namespace sluice::memcached {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
// A key of 250 bytes and a few flags, or an error's sentence.
constexpr std::size_t kMaxLineBytes = 2'048;
// Far above the largest item size (-I) that a server can be started with.
constexpr std::size_t kMaxValueBytes = std::size_t{1} << 30;

void append_flag(std::string& output, std::string_view flag, std::uint64_t number) {
  sluice::append_number(output.append(flag), number);
}

void append_command(std::string& output, std::string_view command, std::string_view key) {
  assert(key.size() <= kMaxKeyBytes);
  output.append(command).append(key);
}

// The next word of a line; empty at its end.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// Nothing if no reply begins with this word.
std::optional<Code> code_of(std::string_view word) {
  if (word == "HD") return Code::kDone;
  if (word == "VA") return Code::kValue;
  if (word == "EN") return Code::kMiss;
  if (word == "EX") return Code::kExists;
  if (word == "NS") return Code::kNotStored;
  if (word == "NF") return Code::kNotFound;
  if (word == "ERROR" || word == "CLIENT_ERROR" || word == "SERVER_ERROR") return Code::kError;
  return std::nullopt;
}

// The length of a value's data block, the word after "VA". False if the word is not a length.
bool read_size(std::string_view word, std::size_t& bytes) {
  return read_number(word, bytes) && bytes <= kMaxValueBytes;
}

// Reads the flags that were asked for, and skips others.
bool read_flags(std::string_view line, MetaReply& reply) {
  for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
    const std::string_view number = word.substr(1);
    if (word[0] == 'O' && !read_number(number, reply.number.emplace())) return false;
    if (word[0] == 'c' && !read_number(number, reply.token)) return false;
    if (word[0] == 'f' && !read_number(number, reply.written_s)) return false;
    if (word == "Z") reply.is_claimed = true;
  }
  return true;
}

}  // namespace

void append_get(std::string& output, std::string_view key, std::uint32_t number) {
  append_command(output, "mg ", key);
  append_flag(output, " v c f O", number);
  output.append(kLineEnd);
}

void append_claim(std::string& output, std::string_view key, std::uint32_t number) {
  append_command(output, "md ", key);
  append_flag(output, " I O", number);
  output.append(kLineEnd);
}

void append_set(std::string& output, const Write& write, std::uint32_t number) {
  append_command(output, "ms ", write.key);
  append_flag(output, " ", write.value.size());
  append_flag(output, " T", static_cast<std::uint64_t>(write.expiry_s));
  append_flag(output, " F", write.written_s);
  if (write.token) {
    append_flag(output, " C", *write.token);
  } else {
    output.append(" ME");
  }
  append_flag(output, " c O", number);
  output.append(kLineEnd).append(write.value).append(kLineEnd);
}

void append_delete(std::string& output, std::string_view key, std::uint64_t token,
                   std::uint32_t number) {
  append_command(output, "md ", key);
  append_flag(output, " C", token);
  append_flag(output, " O", number);
  output.append(kLineEnd);
}

std::optional<Version> read_version(std::string_view reply) {
  constexpr std::string_view kBegin = "VERSION ";
  if (!reply.starts_with(kBegin)) return std::nullopt;
  const char* at = reply.data() + kBegin.size();
  const char* const end = reply.data() + reply.size();
  Version version{};
  for (unsigned& number : version) {
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc{}) return std::nullopt;
    at = read.ptr;
    if (at != end && *at == '.') ++at;
  }
  return version;
}

std::optional<MetaReply> take_reply(std::string_view& unread) {
  const std::size_t end = unread.find(kLineEnd);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = unread.substr(0, end);
  std::string_view after = unread.substr(end + kLineEnd.size());
  MetaReply reply;
  reply.text = line;
  const auto code = code_of(take_word(line));
  if (!code) return std::nullopt;
  reply.code = *code;
  std::size_t bytes = 0;
  if (*code == Code::kValue && !read_size(take_word(line), bytes)) return std::nullopt;
  if (*code != Code::kError && !read_flags(line, reply)) return std::nullopt;
  if (*code == Code::kValue) {
    if (after.size() < bytes + kLineEnd.size()) return std::nullopt;
    reply.text = after.substr(0, bytes);
    after.remove_prefix(bytes + kLineEnd.size());
  }
  unread = after;
  return reply;
}

std::size_t MetaFraming::reply_bytes(std::string_view input) {
  for (;;) {
    const std::size_t end = input.find('\n', at_);
    if (end == std::string_view::npos) {
      return input.size() - at_ > kMaxLineBytes ? kMalformed : 0;
    }
    if (end == at_ || input[end - 1] != '\r' || end - at_ > kMaxLineBytes) return kMalformed;
    std::string_view line = input.substr(at_, end - 1 - at_);
    std::size_t next = end + 1;
    if (line.starts_with("VA")) {
      std::size_t bytes = 0;
      line.remove_prefix(2);
      if (!read_size(take_word(line), bytes)) return kMalformed;
      next += bytes + kLineEnd.size();
      if (input.size() < next) return 0;
      if (input.substr(next - kLineEnd.size(), kLineEnd.size()) != kLineEnd) return kMalformed;
    }
    at_ = next;
    if (handshake_left_ > 0) {
      --handshake_left_;
    } else if (line != "MN") {
      continue;
    }
    at_ = 0;
    return next;
  }
}

}  // namespace sluice::memcached
