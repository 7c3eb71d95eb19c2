#pragma once

#include <algorithm>
#include <cassert>
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
  CommandQueue(std::unique_ptr<Framing> framing, std::size_t max_reply_bytes)
      : framing_(std::move(framing)),
        max_reply_bytes_(max_reply_bytes),
        input_({kKeepBytes, kKeepBytes, std::max(kKeepBytes, max_reply_bytes + kSpareBytes)}) {}

  /// Calls the command's write(), and puts it behind the commands in flight.
  void add(std::unique_ptr<Command> command, TimePoint now) {
    const std::size_t begin = sent_before_ + output_.size();
    command->write(output_);
    const std::size_t replies = command->replies();
    if (replies == 0) return;
    in_flight_.push_back({std::move(command), replies, begin, sent_before_ + output_.size(), now});
  }
  /// Appends bytes whose replies belong to no command: the handshake.
  void add_handshake(std::string_view bytes) { output_.append(bytes); }

  /// The bytes to send next. The view is valid until add(), add_handshake() or sent().
  std::string_view unsent() const { return std::string_view(output_).substr(sent_); }
  /// The caller gives all of unsent() to the socket now. Replies to it may arrive before sent() is
  /// called. (A thread may have got no processor time since it added them: the server is not to
  /// blame for that.)
  void begin_sending(TimePoint now) {
    for (auto added = in_flight_.rbegin(); added != in_flight_.rend(); ++added) {
      if (added->begin < handed_over_) break;
      added->since = now;
    }
    handed_over_ = sent_before_ + output_.size();
  }
  void sent(std::size_t bytes) {
    sent_ += bytes;
    assert(sent_ <= output_.size());
    if (sent_ != output_.size()) return;
    sent_before_ += std::exchange(sent_, 0);
    output_.clear();
    if (output_.capacity() > kKeepBytes) output_.shrink_to_fit();
  }

  /// room() is where to put received bytes; received() says how many there were.
  std::span<char> room() { return input_.make_room(); }
  void received(std::size_t bytes) { input_.commit(bytes); }

  /// The next reply, if it is complete. Null if more bytes have to arrive, or if error() is not
  /// empty. The view is valid until the next call.
  std::optional<std::string_view> next_reply() {
    input_.consume(std::exchange(reply_bytes_, 0));
    const std::string_view bytes = input_.unread();
    if (bytes.empty() || !error_.empty()) return std::nullopt;
    const std::size_t length = framing_->reply_bytes(bytes);
    const std::size_t least_bytes = length != 0 ? length : bytes.size() + 1;
    if (length > bytes.size()) {
      error_ = "sent what is no reply";
    } else if (least_bytes > max_reply_bytes_) {
      error_ = "sent a reply longer than " + std::to_string(max_reply_bytes_) + " bytes";
    } else if (length != 0) {
      reply_bytes_ = length;
      return bytes.substr(0, length);
    }
    return std::nullopt;
  }
  /// Takes the reply for the oldest command in flight. If it is that command's last reply, the
  /// command leaves the queue and is returned; if more replies are expected, null. If no command is
  /// in flight, null, and error() is set.
  std::unique_ptr<Command> answered() {
    if (in_flight_.empty() || in_flight_.front().end > handed_over_) {
      error_ = "sent a reply to no command";
      return nullptr;
    }
    if (--in_flight_.front().replies != 0) return nullptr;
    std::unique_ptr<Command> command = std::move(in_flight_.front().command);
    in_flight_.pop_front();
    return command;
  }
  /// What is wrong with the replies, as words that follow "HOST "; empty if nothing is. After an
  /// error no later byte can be understood.
  const std::string& error() const { return error_; }

  /// The number of commands whose last reply has not arrived.
  std::size_t in_flight() const { return in_flight_.size(); }
  /// When the oldest command in flight was given to the socket; if it was not yet, when it was
  /// added.
  std::optional<TimePoint> waiting_since() const {
    if (in_flight_.empty()) return std::nullopt;
    return in_flight_.front().since;
  }

  /// Removes the oldest command in flight, and returns it with what is known about it. With
  /// `all_sent`, unsent bytes count as sent. REQUIRES: in_flight() != 0.
  std::pair<std::unique_ptr<Command>, Loss> lose(bool all_sent) {
    assert(!in_flight_.empty());
    InFlight lost = std::move(in_flight_.front());
    in_flight_.pop_front();
    const bool is_sent = all_sent || sent_before_ + sent_ > lost.begin;
    return {std::move(lost.command), is_sent ? Loss::kMayBeExecuted : Loss::kUnsent};
  }

 private:
  /// A buffer that has grown beyond this is freed once it is empty.
  static constexpr std::size_t kKeepBytes = std::size_t{128} * 1024;
  /// The buffer has room for so much more than the longest reply, as one that is full would grow.
  static constexpr std::size_t kSpareBytes = std::size_t{16} * 1024;

  struct InFlight {
    std::unique_ptr<Command> command;
    std::size_t replies;  // Still to come.
    std::size_t begin;    // Where it begins and ends in the stream of all bytes ever sent.
    std::size_t end;
    TimePoint since;  // See waiting_since().
  };

  const std::unique_ptr<Framing> framing_;
  const std::size_t max_reply_bytes_;
  std::deque<InFlight> in_flight_;  // The oldest first.

  std::string output_;
  std::size_t sent_ = 0;         // Of output_.
  std::size_t sent_before_ = 0;  // Of the stream, before output_ began.
  std::size_t handed_over_ = 0;  // Of the stream.

  InputBuffer input_;            // What was received, from the reply that was returned last.
  std::size_t reply_bytes_ = 0;  // Of that reply.
  std::string error_;
};

}  // namespace sluice
