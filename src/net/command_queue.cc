#include "net/command_queue.h"

#include <algorithm>
#include <cassert>

namespace sluice {
namespace {

/// A buffer that has grown beyond this is freed once it is empty.
constexpr std::size_t kKeepBytes = std::size_t{128} * 1024;
/// The buffer has room for so much more than the longest reply, as one that is full would grow.
constexpr std::size_t kSpareBytes = std::size_t{16} * 1024;

}  // namespace

CommandQueue::CommandQueue(std::unique_ptr<Framing> framing, std::size_t max_reply_bytes)
    : framing_(std::move(framing)),
      max_reply_bytes_(max_reply_bytes),
      input_({kKeepBytes, kKeepBytes, std::max(kKeepBytes, max_reply_bytes + kSpareBytes)}) {}

void CommandQueue::add(std::unique_ptr<Command> command, TimePoint now) {
  const std::size_t begin = sent_before_ + output_.size();
  command->write(output_);
  const std::size_t replies = command->replies();
  if (replies == 0) return;
  in_flight_.push_back({std::move(command), replies, begin, sent_before_ + output_.size(), now});
}

// A thread may have got no processor time since it added them: the server is not to blame for that.
void CommandQueue::begin_sending(TimePoint now) {
  for (auto added = in_flight_.rbegin(); added != in_flight_.rend(); ++added) {
    if (added->begin < handed_over_) break;
    added->since = now;
  }
  handed_over_ = sent_before_ + output_.size();
}

void CommandQueue::sent(std::size_t bytes) {
  sent_ += bytes;
  assert(sent_ <= output_.size());
  if (sent_ != output_.size()) return;
  sent_before_ += std::exchange(sent_, 0);
  output_.clear();
  if (output_.capacity() > kKeepBytes) output_.shrink_to_fit();
}

std::optional<std::string_view> CommandQueue::next_reply() {
  const std::string_view bytes = input_.unread();
  if (bytes.empty() || !error_.empty()) return std::nullopt;
  assert(reply_bytes_ == 0);
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

std::unique_ptr<Command> CommandQueue::answered() {
  if (in_flight_.empty() || in_flight_.front().end > handed_over_) {
    error_ = "sent a reply to no command";
    return nullptr;
  }
  if (--in_flight_.front().replies != 0) return nullptr;
  std::unique_ptr<Command> command = std::move(in_flight_.front().command);
  in_flight_.pop_front();
  return command;
}

std::optional<CommandQueue::TimePoint> CommandQueue::waiting_since() const {
  if (in_flight_.empty()) return std::nullopt;
  return in_flight_.front().since;
}

std::pair<std::unique_ptr<Command>, Loss> CommandQueue::lose(bool all_sent) {
  assert(!in_flight_.empty());
  InFlight lost = std::move(in_flight_.front());
  in_flight_.pop_front();
  return {std::move(lost.command),
          all_sent || bytes_sent() > lost.begin ? Loss::kMayBeExecuted : Loss::kUnsent};
}

}  // namespace sluice
