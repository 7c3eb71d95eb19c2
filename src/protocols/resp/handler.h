#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "protocols/resp/commands.h"
#include "protocols/resp/decision_replies.h"
#include "protocols/resp/parser.h"
#include "protocols/stream_handler.h"

namespace sluice::resp {

/// One connection: bytes in, bytes out, no socket. Commands that arrive together are decided
/// together, and answered in order. Not thread-safe.
class Handler final : public StreamHandler {
 public:
  /// `id` is what CLIENT ID says. `wake` is needed for a store that answers later only.
  Handler(std::shared_ptr<ThreadState> thread, std::int64_t id, Wake wake)
      : thread_(std::move(thread)), wake_(std::move(wake)) {
    peer_.id = id;
  }

  /// Runs at most DecisionBatch::kMaxRequests commands and appends their replies: a few KiB a
  /// command at most, besides what PING and ECHO return of the input. What is left of the input is
  /// less than kMaxCommandBytes, unless `next` is kMore or kLater. Called too early after kLater,
  /// it returns that again and does nothing else.
  Progress on_data(std::string_view input, std::string& output) override;

 private:
  Progress run_commands(std::string_view input, std::string& output);

  const std::shared_ptr<ThreadState> thread_;
  const Wake wake_;
  Peer peer_;
  Parser parser_;
  DecisionReplies replies_;
  std::shared_ptr<PendingAnswers> pending_;
};

/// Makes the handlers of RESP's connections, over what all serving threads share. Throws StoreError
/// where the store cannot open the space of CL.THROTTLE.
MakeHandler handlers(const std::shared_ptr<ServerContext>& server);

/// What a client is sent for whom there is no connection left.
inline constexpr std::string_view kRefusal = "-ERR max number of clients reached\r\n";

}  // namespace sluice::resp
