#include "stores/memcached/meta_protocol.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace sluice::memcached {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kEnd = "MN\r\n";
// A key of 250 bytes and a few flags, or an error's sentence.
constexpr std::size_t kMaxLineBytes = 2'048;
// Far above what a server can be told to take for an item.
constexpr std::size_t kMaxValueBytes = std::size_t{1} << 30;

// What stands in a command's line behind its key: words, some of them with a number.
class Words {
 public:
  Words() = default;
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  Words& add(std::string_view word) {
    end_ = std::copy(word.begin(), word.end(), end_);
    return *this;
  }
  Words& add(std::string_view word, std::uint64_t number) {
    add(word);
    end_ = std::to_chars(end_, text_.data() + text_.size(), number).ptr;
    return *this;
  }
  std::string_view text() const { return {text_.data(), end_}; }

 private:
  std::array<char, 160> text_;  // Of the longest command: five numbers of 20 digits.
  char* end_ = text_.data();
};

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (text.empty() || read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return number;
}

// The text up to the next blank, which is taken off with it.
std::string_view take_word(std::string_view& line) {
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size() == line.size() ? word.size() : word.size() + 1);
  return word;
}

std::optional<Code> read_code(std::string_view word) {
  if (word == "VA") return Code::kValue;
  if (word == "HD") return Code::kDone;
  if (word == "EN") return Code::kMiss;
  if (word == "NS") return Code::kNotStored;
  if (word == "EX") return Code::kExists;
  if (word == "NF") return Code::kNotFound;
  if (word == "ERROR" || word == "CLIENT_ERROR" || word == "SERVER_ERROR") return Code::kError;
  return std::nullopt;
}

bool read_flags(std::string_view flags, MetaReply& reply) {
  while (!flags.empty()) {
    const std::string_view flag = take_word(flags);
    if (flag.empty()) continue;
    if (flag[0] == 'O') {
      reply.number = read_number<std::uint32_t>(flag.substr(1));
      if (!reply.number) return false;
    } else if (flag[0] == 'c') {
      const auto token = read_number<std::uint64_t>(flag.substr(1));
      if (!token) return false;
      reply.token = *token;
    }
  }
  return true;
}

// The length of a value's data block, from its line.
std::optional<std::size_t> value_bytes(std::string_view line) {
  take_word(line);
  const auto bytes = read_number<std::size_t>(take_word(line));
  if (!bytes || *bytes > kMaxValueBytes) return std::nullopt;
  return bytes;
}

}  // namespace

void append_get(std::string& output, std::string_view key, std::uint32_t number) {
  Words words;
  words.add(" v c O", number).add(kLineEnd);
  output.append("mg ").append(key).append(words.text());
}

void append_set(std::string& output, const Write& write, std::uint32_t number) {
  Words words;
  words.add(" ", write.value.size()).add(" T", static_cast<std::uint64_t>(write.expiry_s));
  if (write.token) {
    words.add(" C", *write.token);
  } else {
    words.add(" ME");
  }
  words.add(" c O", number).add(kLineEnd);
  output.append("ms ").append(write.key).append(words.text());
  output.append(write.value).append(kLineEnd);
}

void append_delete(std::string& output, const Removal& removal, std::uint32_t number) {
  Words words;
  if (removal.token) words.add(" C", *removal.token);
  words.add(" O", number).add(kLineEnd);
  output.append("md ").append(removal.key).append(words.text());
}

void append_add(std::string& output, const Addition& addition, std::uint32_t number) {
  Words words;
  words.add(" N", static_cast<std::uint64_t>(addition.expiry_s))
      .add(" J", addition.units)
      .add(" D", addition.units)
      .add(" v O", number)
      .add(kLineEnd);
  output.append("ma ").append(addition.key).append(words.text());
}

void append_subtract(std::string& output, const Subtraction& subtraction, std::uint32_t number) {
  Words words;
  if (subtraction.wrapped) {
    words.add(" D", 0 - subtraction.units);
  } else {
    words.add(" MD D", subtraction.units);
  }
  words.add(" O", number).add(kLineEnd);
  output.append("ma ").append(subtraction.key).append(words.text());
}

std::optional<std::uint64_t> read_counter(std::string_view value) {
  return read_number<std::uint64_t>(value.substr(0, value.find_last_not_of(' ') + 1));
}

void append_end(std::string& output) {
  output += "mn\r\n";
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

std::optional<MetaReply> MetaReader::next() {
  const std::size_t end = rest_.find(kLineEnd);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest_.substr(0, end);
  std::string_view flags = line;
  const auto code = read_code(take_word(flags));
  if (!code) return std::nullopt;
  MetaReply reply;
  reply.code = *code;
  std::size_t taken = end + kLineEnd.size();
  if (*code == Code::kError) {
    reply.text = line;
  } else {
    if (*code == Code::kValue) {
      const auto bytes = value_bytes(line);
      if (!bytes || rest_.size() - taken < *bytes + kLineEnd.size()) return std::nullopt;
      reply.text = rest_.substr(taken, *bytes);
      taken += *bytes + kLineEnd.size();
      take_word(flags);
    }
    if (!read_flags(flags, reply)) return std::nullopt;
  }
  rest_.remove_prefix(taken);
  return reply;
}

bool MetaReader::at_end() const {
  return rest_ == kEnd;
}

std::size_t MetaFraming::reply_bytes(std::string_view input) {
  for (;;) {
    const std::size_t end = input.find('\n', at_);
    if (end == std::string_view::npos) {
      return input.size() - at_ > kMaxLineBytes ? kMalformed : 0;
    }
    if (end == at_ || input[end - 1] != '\r' || end - at_ > kMaxLineBytes) return kMalformed;
    const std::string_view line = input.substr(at_, end - 1 - at_);
    std::size_t next = end + 1;
    if (line.starts_with("VA")) {
      const auto bytes = value_bytes(line);
      if (!bytes) return kMalformed;
      next += *bytes + kLineEnd.size();
      if (input.size() < next) return 0;
      if (input.substr(next - kLineEnd.size(), kLineEnd.size()) != kLineEnd) return kMalformed;
    }
    at_ = next;
    if (greetings_left_ > 0) {
      --greetings_left_;
    } else if (line != "MN") {
      continue;
    }
    at_ = 0;
    return next;
  }
}

}  // namespace sluice::memcached
