#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/stream_handler.h"

namespace sluice {

/// A connection around the handler of a protocol.
class HandlerConnection {
 public:
  explicit HandlerConnection(std::unique_ptr<StreamHandler> handler)
      : handler_(std::move(handler)) {}

  /// Gives the handler the bytes that have come, as a connection does, and returns what it sends.
  /// Each call has the input in new memory of exactly its size, so that the address sanitizer
  /// reports a reference to the former one, and a read beyond it. Ends the program if the handler
  /// says that it has consumed more than there is.
  std::string send(std::string_view bytes) {
    input_ += bytes;
    std::string output;
    do {
      const std::vector<char> input(input_.begin(), input_.end());
      progress = handler_->on_data({input.data(), input.size()}, output);
      if (progress.consumed > input.size()) std::abort();
      input_.erase(0, progress.consumed);
    } while (progress.next == StreamHandler::Next::kMore);
    return output;
  }
  std::string end(StreamHandler::EndReason why) {
    std::string output;
    handler_->on_end(why, output);
    return output;
  }
  std::size_t held_bytes() const { return handler_->held_bytes(); }
  /// What the handler waits with until more has come.
  std::size_t unread_bytes() const { return input_.size(); }

  /// Whether it is closed once the time to log in has passed.
  bool ends_for_login() { return handler_->awaits_login(); }

  StreamHandler::Progress progress;

 private:
  std::unique_ptr<StreamHandler> handler_;
  std::string input_;
};

}  // namespace sluice
