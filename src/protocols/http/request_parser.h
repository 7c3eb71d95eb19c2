#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "protocols/http/message.h"

namespace sluice::http {

/// Reads the requests of one connection, one after the other, from bytes that arrive in pieces.
/// Boost.Beast's parser reads the grammar; this adds the bounds, and refuses what two readers of
/// one connection (a proxy and this server) might understand differently: a line end without CR, a
/// folded line, both Content-Length and Transfer-Encoding, an encoding other than chunked, no Host
/// or two, two Expect, an absolute target whose authority is not the Host. Knows no socket. Not
/// thread-safe.
class RequestParser {
 public:
  enum class Result : std::uint8_t {
    kNeedMore,  ///< The rest of the request has not come.
    kContinue,  ///< The same, and the client waits for "100 Continue". At most once a request.
    kHead,      ///< message() lacks its body, which is chunked or longer than kSmallBodyBytes.
    kRequest,   ///< message() is complete.
    kRefused,   ///< problem() says why. Nothing more can be read from this connection.
  };

  RequestParser();
  ~RequestParser();

  /// Reads on. `input` begins where the last call has ended: consumed() bytes after the beginning
  /// of its input. After kRequest, the next request begins.
  Result next(std::string_view input);

  /// How many bytes the last call of next() has consumed.
  std::size_t consumed() const { return consumed_; }

  /// After kRequest and kHead. Valid until next() is called, and no longer than the last input.
  const Message& message() const { return message_; }

  /// After kRefused.
  const Problem& problem() const { return problem_; }

  /// Whether a part of a request has been consumed and the rest has not arrived.
  bool has_part() const { return state_ == State::kBody; }

  /// What is kept of that part, and of the last message.
  std::size_t held_bytes() const { return head_.capacity() + body_.capacity(); }

  /// After kRequest: makes the next call of next() return the same request. The input may become
  /// invalid.
  void repeat();

 private:
  enum class State : std::uint8_t { kHead, kBody, kDone, kRepeat };
  class Grammar;

  Result read_head(std::string_view input);
  std::size_t find_head_end(std::string_view input);
  Result read_body(std::string_view input);
  Result end();
  void own_head();

  State state_ = State::kHead;
  std::size_t consumed_ = 0;
  std::size_t scanned_ = 0;  // Of the head: whole lines without an error.
  bool owns_head_ = false;   // The views refer to head_.
  bool expects_ = false;     // The client may wait for "100 Continue".
  Message message_;
  Problem problem_;
  std::string_view head_bytes_;  // What the views of message_ refer to.
  std::string head_;
  std::string body_;
  std::unique_ptr<Grammar> grammar_;
};

}  // namespace sluice::http
