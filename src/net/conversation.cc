#include "net/conversation.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kLeastRoomBytes = std::size_t{16} * 1024;
/// A buffer that has grown beyond this is given back once it is empty.
constexpr std::size_t kKeepBytes = std::size_t{128} * 1024;

}  // namespace

Conversation::Conversation(std::unique_ptr<Framing> framing, Bounds bounds)
    : framing_(std::move(framing)), bounds_(bounds) {
  questions_.reserve(bounds.max_in_flight);
  unanswered_.reserve(bounds.max_in_flight);
  resize_input(kKeepBytes);
}

void Conversation::ask(Exchange& exchange, Instant now) {
  const std::size_t begin = sent_before_ + output_.size();
  questions_.push_back({&exchange, begin, begin, now});
  exchange.write(output_);
  questions_.back().end = sent_before_ + output_.size();
}

void Conversation::sent(std::size_t bytes) {
  sent_ += bytes;
  if (sent_ != output_.size()) return;
  sent_before_ += std::exchange(sent_, 0);
  output_.clear();
  if (output_.capacity() > kKeepBytes) output_.shrink_to_fit();
}

std::span<char> Conversation::room() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (input_bytes_ > kKeepBytes) resize_input(kKeepBytes);
  }
  if (input_bytes_ - end_ < kLeastRoomBytes && begin_ != 0) {
    std::memmove(input_.get(), input_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  if (input_bytes_ - end_ < kLeastRoomBytes) {
    // next_reply() has found that this is no whole reply, yet not longer than one may be.
    resize_input(
        std::max(std::min(2 * input_bytes_, bounds_.max_reply_bytes), end_ + kLeastRoomBytes));
  }
  return {input_.get() + end_, input_bytes_ - end_};
}

void Conversation::resize_input(std::size_t bytes) {
  auto larger = std::make_unique_for_overwrite<char[]>(bytes);
  if (end_ != 0) std::memcpy(larger.get(), input_.get(), end_);
  input_ = std::move(larger);
  input_bytes_ = bytes;
}

std::optional<std::string_view> Conversation::next_reply() {
  const std::string_view bytes = input();
  if (bytes.empty() || !fault_.empty()) return std::nullopt;
  const std::size_t length = framing_->reply_bytes(bytes);
  const std::size_t least_bytes = length != 0 ? length : bytes.size() + 1;
  if (length > bytes.size()) {
    fault_ = "sent what is no reply";
  } else if (least_bytes > bounds_.max_reply_bytes) {
    fault_ = "sent a reply longer than " + std::to_string(bounds_.max_reply_bytes) + " bytes";
  } else if (length != 0) {
    reply_bytes_ = length;
    return bytes.substr(0, length);
  }
  return std::nullopt;
}

void Conversation::drop_reply() {
  begin_ += std::exchange(reply_bytes_, 0);
}

Exchange* Conversation::answered() {
  if (questions_.empty() || questions_.front().end > bytes_sent()) {
    fault_ = "sent a reply that nobody asked for";
    return nullptr;
  }
  Exchange* const exchange = questions_.front().exchange;
  questions_.erase(questions_.begin());
  return exchange;
}

bool Conversation::is_idle() const {
  return questions_.empty() && output_.empty() && begin_ == end_;
}

std::optional<Conversation::Instant> Conversation::waiting_since() const {
  if (questions_.empty()) return std::nullopt;
  return questions_.front().asked;
}

std::vector<Conversation::Unanswered> Conversation::end() noexcept {
  const std::size_t gone = bytes_sent();
  for (const Question& question : questions_) {
    unanswered_.push_back(
        {question.exchange, gone > question.begin ? Loss::kUnknown : Loss::kUnsent});
  }
  return std::move(unanswered_);
}

}  // namespace sluice
