#include "protocols/http/request_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <optional>
#include <utility>

namespace sluice::http {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kLastChunk = "0\r\n\r\n";
// The memory of a longer head or body is freed before the next request arrives.
constexpr std::size_t kKeptBytes = 16 * 1024;

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

// `what`: "the body has".
Problem too_long(int status, const std::string& what, std::size_t most_bytes) {
  return {.status = status, .detail = what + " more than " + std::to_string(most_bytes) + " bytes"};
}

// Beast's own texts are names of error codes; these sentences are for the client's author.
std::string_view sentence_for(const error_code& code) {
  using beast::http::error;
  switch (static_cast<error>(code.value())) {
    case error::bad_method:
      return "the request line does not begin with a method";
    case error::bad_target:
      return "the request line has no valid target";
    case error::bad_version:
      return "the request line does not end with HTTP/1.1 or HTTP/1.0";
    case error::bad_field:
      return "a header's name is empty, or has a character that no name has";
    case error::bad_value:
      return "a header's value has a character that no value has";
    case error::bad_line_ending:
      return "a line does not end with CR and LF";
    case error::bad_content_length:
      return "Content-Length is no number, or stands beside Transfer-Encoding";
    case error::multiple_content_length:
      return "there are two lengths in Content-Length";
    case error::bad_transfer_encoding:
      return "Transfer-Encoding stands twice, or beside Content-Length";
    case error::bad_chunk:
    case error::bad_chunk_extension:
      return "a chunk of the body does not begin with its length";
    default:
      return "this is no HTTP request";
  }
}

bool is_method(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  });
}

// Whether lines have a control character that does not end one. Beast takes any between the quotes
// of a chunk's extension, where a proxy may see the end of a line.
bool has_stray_control(std::string_view lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines.substr(i).starts_with(kLineEnd)) {
      ++i;
    } else if (lines[i] != '\t' &&
               (static_cast<unsigned char>(lines[i]) < ' ' || lines[i] == '\x7f')) {
      return true;
    }
  }
  return false;
}

}  // namespace

/// Beast's parser, which writes what it finds into a Message.
class RequestParser::Grammar {
 public:
  void reset(Message& message, std::string& body) {
    parser_.reset();
    parser_.emplace(message, body);
    parser_->header_limit(kMaxHeadBytes);
    parser_->body_limit(kMaxBodyBytes);
  }

  /// Reads the head, a piece of the body, the first line of a chunk, or the last one with the
  /// trailers. Returns how many bytes that has.
  std::size_t put(std::string_view input, error_code& error) {
    return parser_->put(boost::asio::buffer(input), error);
  }
  bool is_done() const { return parser_->is_done(); }
  bool is_chunked() const { return parser_->chunked(); }
  bool keeps_alive() const { return parser_->keep_alive(); }
  std::uint64_t content_length() const { return parser_->content_length().value_or(0); }

 private:
  class Parser final : public beast::http::basic_parser<true> {
   public:
    Parser(Message& message, std::string& body) : message_(message), body_(body) {}

   private:
    void on_request_impl(beast::http::verb /*verb*/, beast::string_view method,
                         beast::string_view target, int version, error_code& /*error*/) override {
      message_.method = view(method);
      message_.target = view(target);
      message_.is_http_1_0 = version == 10;
    }
    void on_response_impl(int, beast::string_view, int, error_code&) override {}
    void on_field_impl(beast::http::field /*field*/, beast::string_view name,
                       beast::string_view value, error_code& /*error*/) override {
      // Trailers after the last chunk are ignored.
      if (!is_header_done()) message_.fields.push_back({view(name), view(value)});
    }
    void on_header_impl(error_code& /*error*/) override {}
    void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
    std::size_t on_body_impl(beast::string_view piece, error_code& /*error*/) override {
      body_.append(piece.data(), piece.size());
      return piece.size();
    }
    void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view piece,
                                   error_code& /*error*/) override {
      body_.append(piece.data(), piece.size());
      return piece.size();
    }
    void on_finish_impl(error_code& /*error*/) override {}

    Message& message_;
    std::string& body_;
  };

  std::optional<Parser> parser_;
};

namespace {

// Refuses a request that may be meant for another server.
void check_host(Message& message) {
  std::size_t hosts = 0;
  for (const HeaderField& field : message.fields) {
    if (!equals_ignoring_case(field.name, "Host")) continue;
    message.host = field.value;
    ++hosts;
  }
  if (hosts > 1) throw Problem{.detail = "there is more than one Host"};
  if (hosts == 0 && !message.is_http_1_0) throw Problem{.detail = "there is no Host"};
  if (message.target.starts_with('/') || message.target == "*") return;
  const std::size_t scheme = message.target.find("://");
  if (scheme == std::string_view::npos || message.target[0] == ':') {
    throw Problem{.detail = "the target is neither a path nor a URL"};
  }
  const std::string_view rest = message.target.substr(scheme + 3);
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  if (!equals_ignoring_case(rest.substr(0, end), message.host)) {
    throw Problem{.detail = "the target's authority is not that of Host"};
  }
  message.target = end == rest.size() || rest[end] == '?' ? "/" : rest.substr(end);
}

// Beast would ignore an unknown encoding, and the body with it.
void check_encoding(const Message& message, bool is_chunked) {
  for (const HeaderField& field : message.fields) {
    if (!equals_ignoring_case(field.name, "Transfer-Encoding")) continue;
    if (message.is_http_1_0) throw Problem{.detail = "HTTP/1.0 has no Transfer-Encoding"};
    if (!is_chunked || !equals_ignoring_case(field.value, "chunked")) {
      throw Problem{.detail = "Transfer-Encoding is not chunked"};
    }
  }
}

// Whether the client waits for "100 Continue" before it sends the body.
bool expects_continue(const Message& message) {
  const std::string_view expected = message.only_field("Expect");
  if (expected.empty() || message.is_http_1_0) return false;
  if (equals_ignoring_case(expected, "100-continue")) return true;
  throw Problem{.status = 417, .detail = "Expect can be 100-continue only"};
}

}  // namespace

RequestParser::RequestParser() : grammar_(std::make_unique<Grammar>()) {}
RequestParser::~RequestParser() = default;

RequestParser::Result RequestParser::next(std::string_view input) {
  consumed_ = 0;
  try {
    if (state_ == State::kRepeat) return end();
    if (state_ == State::kBody) return read_body(input);
    state_ = State::kHead;
    return read_head(input);
  } catch (Problem& problem) {
    problem_ = std::move(problem);
    return Result::kRefused;
  }
}

// The size of the head, or 0 if its end has not arrived. Beast would notice the same errors, but
// only after the end has arrived, and it accepts folded lines.
std::size_t RequestParser::find_head_end(std::string_view input) {
  while (true) {
    const std::size_t end = input.find('\n', scanned_);
    const bool is_first = scanned_ == 0;
    const std::size_t line_bytes = std::min(end, input.size()) - scanned_;
    if (line_bytes > kMaxLineBytes) {
      if (is_first) throw too_long(414, "the request line has", kMaxLineBytes);
      throw too_long(431, "a header has", kMaxLineBytes);
    }
    if (std::min(end, input.size()) > kMaxHeadBytes) {
      throw too_long(431, "the headers have", kMaxHeadBytes);
    }
    if (end == std::string_view::npos) return 0;
    if (end == scanned_ || input[end - 1] != '\r') {
      throw Problem{.detail = "a line does not end with CR and LF"};
    }
    // At once: a client of another protocol waits for an answer to its line.
    if (is_first && !is_method(input.substr(0, input.find(' ')))) {
      throw Problem{.detail = "the request line does not begin with a method"};
    }
    const char first = input[scanned_];
    if (first == ' ' || first == '\t') {
      throw Problem{.detail = "a line begins with a blank"};
    }
    if (line_bytes == 1) return end + 1;
    scanned_ = end + 1;
  }
}

RequestParser::Result RequestParser::read_head(std::string_view input) {
  for (std::string* const text : {&head_, &body_}) {
    text->clear();
    if (text->capacity() > kKeptBytes) std::string().swap(*text);
  }
  // Some clients send empty lines after a body. Ignoring only one would depend on which bytes have
  // arrived together.
  std::size_t blank = 0;
  while (scanned_ == 0 && input.starts_with(kLineEnd)) {
    blank += kLineEnd.size();
    input.remove_prefix(kLineEnd.size());
  }
  consumed_ = blank;
  const std::size_t head_end = find_head_end(input);
  if (head_end == 0) return Result::kNeedMore;
  scanned_ = 0;
  message_.fields.clear();
  message_.host = message_.body = {};
  owns_head_ = false;
  grammar_->reset(message_, body_);
  head_bytes_ = input.substr(0, head_end);
  error_code error;
  grammar_->put(head_bytes_, error);
  if (error == beast::http::error::body_limit) {
    throw too_long(413, "the body has", kMaxBodyBytes);
  }
  if (error) throw Problem{.detail = std::string(sentence_for(error))};
  if (message_.fields.size() > kMaxFields) {
    throw Problem{.status = 431, .detail = "there are too many headers"};
  }
  check_host(message_);
  check_encoding(message_, grammar_->is_chunked());
  message_.keeps_alive = grammar_->keeps_alive();
  consumed_ = blank + head_end;
  expects_ = expects_continue(message_);
  if (grammar_->is_done()) return end();
  input.remove_prefix(head_end);
  const bool is_small = !grammar_->is_chunked() && grammar_->content_length() <= kSmallBodyBytes;
  if (is_small && input.size() >= grammar_->content_length()) {
    message_.body = input.substr(0, grammar_->content_length());
    consumed_ += message_.body.size();
    return end();
  }
  own_head();
  state_ = State::kBody;
  return is_small ? read_body(input) : Result::kHead;
}

RequestParser::Result RequestParser::read_body(std::string_view input) {
  if (std::exchange(expects_, false) && input.empty()) return Result::kContinue;
  // A chunked body ends with the last chunk, which Beast must get in one piece.
  const std::size_t least_bytes = grammar_->is_chunked() ? kLastChunk.size() : 1;
  while (!grammar_->is_done()) {
    if (input.size() < least_bytes) return Result::kNeedMore;
    error_code error;
    const std::size_t body_bytes = body_.size();
    const std::size_t bytes = grammar_->put(input, error);
    if (error == beast::http::error::body_limit) {
      throw too_long(413, "the body has", kMaxBodyBytes);
    }
    const bool needs_more = error == beast::http::error::need_more;
    if (error && !needs_more) throw Problem{.detail = std::string(sentence_for(error))};
    const bool is_framing = body_.size() == body_bytes;
    if (is_framing && !needs_more && has_stray_control(input.substr(0, bytes))) {
      throw Problem{.detail = "a chunk's first line or the trailers have a control character"};
    }
    if (is_framing && (needs_more ? input.size() : bytes) > kMaxHeadBytes) {
      throw too_long(431, "a chunk's first line or the trailers have", kMaxHeadBytes);
    }
    if (needs_more) return Result::kNeedMore;
    consumed_ += bytes;
    input.remove_prefix(bytes);
  }
  message_.body = body_;
  return end();
}

RequestParser::Result RequestParser::end() {
  state_ = State::kDone;
  return Result::kRequest;
}

void RequestParser::repeat() {
  own_head();
  if (message_.body.data() != body_.data()) {
    body_.assign(message_.body);
    message_.body = body_;
  }
  state_ = State::kRepeat;
}

// Copies the head, because the input that contains it becomes invalid.
void RequestParser::own_head() {
  if (std::exchange(owns_head_, true)) return;
  head_.assign(head_bytes_);
  const auto move = [this](std::string_view& view) {
    const bool is_inside =
        view.data() >= head_bytes_.data() && view.data() <= head_bytes_.data() + head_bytes_.size();
    if (is_inside) view = {head_.data() + (view.data() - head_bytes_.data()), view.size()};
  };
  move(message_.method);
  move(message_.target);
  move(message_.host);
  for (HeaderField& field : message_.fields) {
    move(field.name);
    move(field.value);
  }
  head_bytes_ = head_;
}

}  // namespace sluice::http
