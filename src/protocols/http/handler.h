#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/stream_handler.h"
#include "protocols/http/check_list.h"
#include "protocols/http/context.h"
#include "protocols/http/replies.h"
#include "protocols/http/request_parser.h"

namespace sluice::http {

/// One HTTP connection without its socket. on_data() parses the requests that arrived together,
/// lets the store decide them as one batch, and appends the responses in order. Used by its
/// connection's serving thread only.
class Handler final : public StreamHandler {
 public:
  /// `wake` is used only with a store that answers later.
  Handler(std::shared_ptr<ThreadState> thread, Peer peer, Wake wake);

  /// Carries out at most DecisionBatch::kMaxRequests requests. Leaves at most kMaxHeadBytes of the
  /// input (a head, the length of a chunk, trailers), unless `next` is kMore or kLater.
  Progress on_data(std::string_view input, std::string& output) override;
  /// Answers 408 or 503.
  void on_end(EndReason why, std::string& output) override;
  std::size_t held_bytes() const override;

  /// Until a request has come with a right token, to a path that needs one, unless the peer is
  /// known without a token.
  bool awaits_login() override {
    peer_.access.update();
    return !has_sent_token_ && !peer_.access.identity().is_known;
  }

 private:
  Progress run_requests(std::string_view input, std::string& output);
  void run(std::string& output, bool has_body, bool is_last);
  void refuse(const Problem& problem, std::string& output);
  void end_list(std::string& output);
  void note_trust();
  std::string_view date() { return thread_->date.at(thread_->server->store().now()); }

  const std::shared_ptr<ThreadState> thread_;
  const CountedConnection counted_;
  const Wake wake_;
  Peer peer_;
  RequestParser parser_;
  DecisionReplies replies_;
  std::shared_ptr<PendingAnswers> pending_;
  std::unique_ptr<CheckList> list_;  // The request that is being answered is one.
  bool is_batch_full_ = false;
  bool is_closing_ = false;
  bool has_sent_token_ = false;  // A right one, with some request.
};

/// Makes the handlers of HTTP connections, which share `server`.
MakeHandler handlers(const std::shared_ptr<ServerContext>& server);
/// The same, for connections to the addresses for operators (--admin), which have other paths.
MakeHandler admin_handlers(const std::shared_ptr<ServerContext>& server);

/// Sent to a client that connects when the server has no connection left.
inline constexpr std::string_view kRefusal =
    "HTTP/1.1 503 Service Unavailable\r\n"
    "Content-Type: application/problem+json\r\n"
    "Content-Length: 110\r\n"
    "Cache-Control: no-store\r\n"
    "Retry-After: 1\r\n"
    "Connection: close\r\n\r\n"
    R"({"type":"about:blank","title":"Service Unavailable","status":503,)"
    R"("detail":"the server has no connection left"})";

/// The time between requests, the time for the rest of one, and the time until the first that has
/// the token of a user, where the server asks for one: paths that need no token do not keep a
/// connection open for longer.
inline constexpr StreamTimeouts kTimeouts{.idle = std::chrono::minutes(5),
                                          .request = std::chrono::seconds(10),
                                          .login = std::chrono::seconds(10)};

}  // namespace sluice::http
