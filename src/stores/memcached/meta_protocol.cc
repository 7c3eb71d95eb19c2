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

// A command's line: words, some of them with a number, gathered here, since each appending to a
// string costs as much as all of a line's words.
class Words {
 public:
  Words(std::string_view command, std::string_view key) { add(command).add(key); }
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
  // A key, and five numbers of 20 digits with a flag each.
  std::array<char, kMaxKeyBytes + 160> text_;
  char* end_ = text_.data();
};

constexpr unsigned pair(char first, char second) {
  return static_cast<unsigned>(static_cast<unsigned char>(first)) << 8 |
         static_cast<unsigned char>(second);
}

// The line of a reply, of which each character is looked at once: there is one for each decision.
class Line {
 public:
  explicit Line(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  /// What is not read yet.
  const char* at() const { return at_; }

  /// The two letters that it begins with; nothing where they are none that a command is answered
  /// with, unless the server refuses it.
  std::optional<Code> code() {
    if (end_ - at_ < 2) return std::nullopt;
    const unsigned letters = pair(at_[0], at_[1]);
    at_ += 2;
    if (!at_word_end()) return std::nullopt;
    switch (letters) {
      case pair('H', 'D'):
        return Code::kDone;
      case pair('V', 'A'):
        return Code::kValue;
      case pair('E', 'N'):
        return Code::kMiss;
      case pair('E', 'X'):
        return Code::kExists;
      case pair('N', 'S'):
        return Code::kNotStored;
      case pair('N', 'F'):
        return Code::kNotFound;
      default:
        return std::nullopt;
    }
  }

  /// The length of a value's data block. False where it is none, here and below.
  bool size(std::size_t& bytes) { return blanks() && number(bytes) && bytes <= kMaxValueBytes; }

  /// All flags, of which some mean something here, and the line's end.
  bool flags(MetaReply& reply) {
    while (blanks() && !at_word_end()) {
      const char flag = *at_++;
      if (flag == 'O') {
        if (!number(reply.number.emplace())) return false;
      } else if (flag == 'c') {
        if (!number(reply.token)) return false;
      } else {
        while (!at_word_end()) ++at_;
      }
    }
    if (!std::string_view(at_, end_).starts_with(kLineEnd)) return false;
    at_ += kLineEnd.size();
    return true;
  }

 private:
  bool at_word_end() const { return at_ == end_ || *at_ == ' ' || *at_ == '\r'; }

  bool blanks() {
    const char* const before = at_;
    while (at_ != end_ && *at_ == ' ') ++at_;
    return at_ != before;
  }

  template <class Number>
  bool number(Number& number) {
    const auto read = std::from_chars(at_, end_, number);
    at_ = read.ptr;
    return read.ec == std::errc{} && at_word_end();
  }

  const char* at_;
  const char* end_;
};

}  // namespace

void append_get(std::string& output, std::string_view key, std::uint32_t number) {
  Words words("mg ", key);
  words.add(" v c O", number).add(kLineEnd);
  output.append(words.text());
}

void append_set(std::string& output, const Write& write, std::uint32_t number) {
  Words words("ms ", write.key);
  words.add(" ", write.value.size()).add(" T", static_cast<std::uint64_t>(write.expiry_s));
  if (write.token) {
    words.add(" C", *write.token);
  } else {
    words.add(" ME");
  }
  words.add(" c O", number).add(kLineEnd);
  output.append(words.text()).append(write.value).append(kLineEnd);
}

void append_delete(std::string& output, const Removal& removal, std::uint32_t number) {
  Words words("md ", removal.key);
  if (removal.token) words.add(" C", *removal.token);
  words.add(" O", number).add(kLineEnd);
  output.append(words.text());
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
  Line line(rest_);
  const auto code = line.code();
  if (!code) return refusal();
  MetaReply reply;
  reply.code = *code;
  const bool has_value = *code == Code::kValue;
  std::size_t bytes = 0;
  if ((has_value && !line.size(bytes)) || !line.flags(reply)) return std::nullopt;
  rest_.remove_prefix(static_cast<std::size_t>(line.at() - rest_.data()));
  if (has_value) {
    if (rest_.size() < bytes + kLineEnd.size()) return std::nullopt;
    reply.text = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes + kLineEnd.size());
  }
  return reply;
}

std::optional<MetaReply> MetaReader::refusal() {
  const std::size_t end = rest_.find(kLineEnd);
  if (end == std::string_view::npos) return std::nullopt;
  MetaReply reply;
  reply.text = rest_.substr(0, end);
  const std::string_view word = reply.text.substr(0, reply.text.find(' '));
  if (word != "ERROR" && word != "CLIENT_ERROR" && word != "SERVER_ERROR") return std::nullopt;
  rest_.remove_prefix(end + kLineEnd.size());
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
      std::size_t bytes = 0;
      if (!Line(line.substr(2)).size(bytes)) return kMalformed;
      next += bytes + kLineEnd.size();
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
