#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/exchange.h"

namespace sluice {

/// What one connection has asked and heard: the bytes to send, those received, and which question
/// each reply belongs to. Has no socket and no clock.
class Conversation final {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  struct Bounds {
    std::size_t max_in_flight;
    std::size_t max_reply_bytes;
  };

  Conversation(std::unique_ptr<Framing> framing, Bounds bounds);

  /// Lets the exchange write, and expects its reply. REQUIRES: in_flight() < max_in_flight. Where
  /// write() throws, so does this: the exchange is in flight all the same, and the conversation can
  /// only be ended.
  void ask(Exchange& exchange, Instant now);
  /// Bytes to be sent whose replies are not an exchange's.
  void say(std::string_view bytes) { output_.append(bytes); }

  /// What is to be sent next, and how much of it has been.
  std::string_view unsent() const { return std::string_view(output_).substr(sent_); }
  void sent(std::size_t bytes);

  /// Where to receive to, at least 16 KiB, and how much came.
  std::span<char> room();
  void received(std::size_t bytes) { end_ += bytes; }

  /// The next reply, where it is complete; valid until drop_reply(), which is to be called before
  /// the next one is asked for. Null where more has to come, or where fault() is not empty.
  std::optional<std::string_view> next_reply();
  void drop_reply();
  /// Whose reply that is: the oldest exchange in flight, which is so no more. Null, and a fault,
  /// where nobody has asked, or not all of the question has been sent.
  Exchange* answered();
  /// What is wrong with the replies, after "HOST "; nothing can be made of what follows.
  const std::string& fault() const { return fault_; }

  std::size_t in_flight() const { return questions_.size(); }
  /// Nothing is to be sent, and nothing to come.
  bool is_idle() const;
  /// When the oldest question in flight was asked.
  std::optional<Instant> waiting_since() const;

  struct Unanswered {
    Exchange* exchange;
    Loss loss;
  };
  /// Ends the conversation: the exchanges in flight, the oldest first. Needs no memory.
  std::vector<Unanswered> end() noexcept;

 private:
  struct Question {
    Exchange* exchange;
    std::size_t begin;  // Where it begins and ends in the stream of all bytes ever said.
    std::size_t end;
    Instant asked;
  };

  std::size_t bytes_sent() const { return sent_before_ + sent_; }
  std::string_view input() const { return {input_.get() + begin_, end_ - begin_}; }
  void resize_input(std::size_t bytes);

  const std::unique_ptr<Framing> framing_;
  const Bounds bounds_;
  // The oldest first. Neither grows beyond what is reserved.
  std::vector<Question> questions_;
  std::vector<Unanswered> unanswered_;  // Empty until the end.

  std::string output_;
  std::size_t sent_ = 0;         // Of output_.
  std::size_t sent_before_ = 0;  // Of the stream, before output_ began.

  std::unique_ptr<char[]> input_;
  std::size_t input_bytes_ = 0;
  std::size_t begin_ = 0;  // What has been received and not dropped.
  std::size_t end_ = 0;
  std::size_t reply_bytes_ = 0;  // Of the reply returned last; 0: it has been dropped.
  std::string fault_;
};

}  // namespace sluice
