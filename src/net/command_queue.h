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
#include "net/input_buffer.h"

namespace sluice {

/// What was sent on one connection and what was received: the bytes in both directions, and which
/// command each reply belongs to. Has no socket and no clock.
class CommandQueue final {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// A longer reply is an error.
  CommandQueue(std::unique_ptr<Framing> framing, std::size_t max_reply_bytes);

  /// Calls the command's write(), and puts it behind the commands in flight.
  void add(std::unique_ptr<Command> command, TimePoint now);
  /// Appends bytes whose replies belong to no command: the handshake.
  void add_handshake(std::string_view bytes) { output_.append(bytes); }

  /// The bytes to send next. The view is valid until add(), add_handshake() or sent().
  std::string_view unsent() const { return std::string_view(output_).substr(sent_); }
  /// The caller gives all of unsent() to the socket now. Replies to it may arrive before sent() is
  /// called.
  void begin_sending(TimePoint now);
  void sent(std::size_t bytes);

  /// room() is where to put received bytes; received() says how many there were.
  std::span<char> room() { return input_.make_room(); }
  void received(std::size_t bytes) { input_.commit(bytes); }

  /// The next reply, if it is complete. Null if more bytes have to arrive, or if error() is not
  /// empty. The view is valid until drop_reply(), which must be called before the next
  /// next_reply().
  std::optional<std::string_view> next_reply();
  void drop_reply() { input_.consume(std::exchange(reply_bytes_, 0)); }
  /// Takes the reply for the oldest command in flight. If it is that command's last reply, the
  /// command leaves the queue and is returned; if more replies are expected, null. If no command is
  /// in flight, null, and error() is set.
  std::unique_ptr<Command> answered();
  /// What is wrong with the replies, as words that follow "HOST "; empty if nothing is. After an
  /// error no later byte can be understood.
  const std::string& error() const { return error_; }

  /// The number of commands whose last reply has not arrived.
  std::size_t in_flight() const { return in_flight_.size(); }
  /// When the oldest command in flight was given to the socket; if it was not yet, when it was
  /// added.
  std::optional<TimePoint> waiting_since() const;

  /// Removes the oldest command in flight, and returns it with what is known about it. With
  /// `all_sent`, unsent bytes count as sent. REQUIRES: in_flight() != 0.
  std::pair<std::unique_ptr<Command>, Loss> lose(bool all_sent);

 private:
  struct InFlight {
    std::unique_ptr<Command> command;
    std::size_t replies;  // Still to come.
    std::size_t begin;    // Where it begins and ends in the stream of all bytes ever sent.
    std::size_t end;
    TimePoint since;  // See waiting_since().
  };

  std::size_t bytes_sent() const { return sent_before_ + sent_; }

  const std::unique_ptr<Framing> framing_;
  const std::size_t max_reply_bytes_;
  std::deque<InFlight> in_flight_;  // The oldest first.

  std::string output_;
  std::size_t sent_ = 0;         // Of output_.
  std::size_t sent_before_ = 0;  // Of the stream, before output_ began.
  std::size_t handed_over_ = 0;  // Of the stream.

  InputBuffer input_;            // What was received and not dropped.
  std::size_t reply_bytes_ = 0;  // Of the reply returned last; 0: it was dropped.
  std::string error_;
};

}  // namespace sluice
