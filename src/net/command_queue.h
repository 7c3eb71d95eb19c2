#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "net/command.h"

namespace sluice {

/// What was sent on one connection and what was received: the bytes in both directions, and which
/// command each reply belongs to. Has no socket and no clock.
class CommandQueue final {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  /// A longer reply is an error.
  CommandQueue(std::unique_ptr<Framing> framing, std::size_t max_reply_bytes);

  /// Lets the command write itself, and expects its replies.
  void add(Command& command, Instant now);
  /// Appends bytes whose replies belong to no command.
  void say(std::string_view bytes) { output_.append(bytes); }

  /// What is to be sent next; stays in place until add(), say() or sent().
  std::string_view unsent() const { return std::string_view(output_).substr(sent_); }
  /// All of it is handed to the socket now, so that replies may come, perhaps before sent() is
  /// called.
  void begin_sending() { handed_over_ = sent_before_ + output_.size(); }
  void sent(std::size_t bytes);

  /// Where to receive to, at least 16 KiB, and how much came.
  std::span<char> room();
  void received(std::size_t bytes) { end_ += bytes; }

  /// The next reply, where it is complete; valid until drop_reply(), which is to be called before
  /// the next one is asked for. Null where more has to come, or where error() is not empty.
  std::optional<std::string_view> next_reply();
  void drop_reply() { begin_ += std::exchange(reply_bytes_, 0); }
  /// The command whose last reply that is: the oldest in flight, which is so no more. Null where
  /// others are to follow, and, with an error, where no command waits for a reply.
  Command* answered();
  /// What is wrong with the replies, after "HOST "; nothing can be made of what follows.
  const std::string& error() const { return error_; }

  /// Commands without their last reply.
  std::size_t in_flight() const { return in_flight_.size(); }
  /// When the oldest command in flight was added.
  std::optional<Instant> waiting_since() const;

  /// Takes the oldest command in flight out, and tells what is known of it. `all_sent`: what is
  /// unsent may have left nevertheless. REQUIRES: in_flight() != 0.
  std::pair<Command*, Loss> lose(bool all_sent);

 private:
  struct InFlight {
    Command* command;
    std::size_t replies;  // Still to come.
    std::size_t begin;    // Where it begins and ends in the stream of all bytes ever sent.
    std::size_t end;
    Instant added;
  };

  std::size_t bytes_sent() const { return sent_before_ + sent_; }
  std::string_view input() const { return {input_.get() + begin_, end_ - begin_}; }
  void resize_input(std::size_t bytes);

  const std::unique_ptr<Framing> framing_;
  const std::size_t max_reply_bytes_;
  std::deque<InFlight> in_flight_;  // The oldest first.

  std::string output_;
  std::size_t sent_ = 0;         // Of output_.
  std::size_t sent_before_ = 0;  // Of the stream, before output_ began.
  std::size_t handed_over_ = 0;  // Of the stream.

  std::unique_ptr<char[]> input_;
  std::size_t input_bytes_ = 0;
  std::size_t begin_ = 0;  // What was received and not dropped.
  std::size_t end_ = 0;
  std::size_t reply_bytes_ = 0;  // Of the reply returned last; 0: it was dropped.
  std::string error_;
};

}  // namespace sluice
