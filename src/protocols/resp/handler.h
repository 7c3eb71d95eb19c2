#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/stream_handler.h"
#include "protocols/resp/context.h"
#include "protocols/resp/decision_replies.h"
#include "protocols/resp/parser.h"

namespace sluice::resp {

/// One RESP connection without its socket. on_data() parses the commands that arrived together,
/// lets the store decide them as one batch, and appends the replies in order. Used by its
/// connection's serving thread only.
class Handler final : public StreamHandler {
 public:
  /// `id` is the reply to CLIENT ID. `stream.wake` is used only with a store that answers later.
  Handler(std::shared_ptr<ThreadState> thread, std::int64_t id, AcceptedStream stream);
  ~Handler() override;
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  /// Runs at most DecisionBatch::kMaxRequests commands and appends their replies: each of at most a
  /// few KiB (PING and ECHO return their argument), and one longer list; those of an EXEC when the
  /// last one has come. Leaves less than kMaxCommandBytes of the input, unless `next` is kMore or
  /// kLater. If it is called after kLater before the store has answered, it returns kLater again
  /// and does nothing else.
  Progress on_data(std::string_view input, std::string& output) override;
  /// Replies with an error.
  void on_end(EndReason why, std::string& output) override;
  std::size_t held_bytes() const override {
    return peer_.transaction.held_bytes() + exec_replies_.capacity();
  }

  bool awaits_login() override {
    update_access();
    return !peer_.access.identity().is_known;
  }

 private:
  void update_access() {
    if (peer_.access.update()) note_user(*thread_, peer_);
  }
  Progress run_commands(std::string_view input, std::string& output);
  bool run_input(CommandContext& context, std::string_view input, std::size_t& consumed);
  bool queue_input(CommandContext& context, std::string_view input, std::size_t& consumed);
  bool read_command(CommandContext& context, std::string_view rest);
  void run_queued(CommandContext& context);
  void end_exec(std::string& output);
  void run(CommandContext& context);

  const std::shared_ptr<ThreadState> thread_;
  const CountedConnection counted_;
  const Wake wake_;
  Peer peer_;
  Parser parser_;
  DecisionReplies replies_;
  std::shared_ptr<PendingAnswers> pending_;
  bool is_exec_batch_ = false;  // The present batch has commands of an EXEC.
  std::string exec_replies_;    // To those that have been decided.
};

/// Makes the handlers of RESP connections, which share `server`. Throws StoreError if the store
/// cannot open the space of CL.THROTTLE.
MakeHandler handlers(const std::shared_ptr<ServerContext>& server);

/// Sent to a client that connects when the server has no connection left.
inline constexpr std::string_view kRefusal = "-ERR max number of clients reached\r\n";

/// A client may be idle for ever, as with Redis, but only between commands, and only while the
/// server knows who it is.
inline constexpr StreamTimeouts kTimeouts{.request = std::chrono::seconds(10),
                                          .login = std::chrono::seconds(10)};

}  // namespace sluice::resp
