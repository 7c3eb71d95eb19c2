#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/command.h"
#include "net/endpoint.h"
#include "net/io_context.h"

namespace sluice {

/// Whose commands a pipeline carries. All are called on the thread that runs the pipeline's
/// context. These, and a command's on_reply() and on_lost(), may call the pipeline's flush() and
/// reconnect(), but must neither destroy it nor throw.
class ConnectionUser {
 public:
  virtual ~ConnectionUser() = default;

  /// The next command, or null where there is none now (flush() asks again). It stays where it is
  /// until it is answered or lost.
  virtual Command* next_command() = 0;

  /// What a new connection begins with: commands, each with one reply. May be empty, with
  /// handshake_replies() 0.
  virtual std::string handshake() = 0;
  virtual std::size_t handshake_replies() = 0;
  /// The reply to the handshake's i-th command. A sentence where the server is not to be used: the
  /// connection is given up and tried again later.
  virtual std::optional<std::string> on_handshake_reply(std::size_t i, std::string_view reply) = 0;

  virtual std::unique_ptr<Framing> make_framing() = 0;

  /// The server is connected and has answered the handshake.
  virtual void on_up() = 0;
  /// It cannot be reached, has not answered, or has gone. Called once for each attempt that fails
  /// and each connection that is lost, after on_lost() of what was in flight. Another attempt
  /// follows after a pause.
  virtual void on_down(std::string_view why) = 0;

  /// Something that the server has sent after the handshake. True where it answers no command, and
  /// the user has taken it. Otherwise it is the reply to the oldest command in flight; where there
  /// is none, the connection is given up.
  virtual bool on_push(std::string_view /*reply*/) { return false; }
};

struct PipelineOptions {
  Endpoint endpoint;
  /// Commands whose replies have not come. At least 1.
  std::size_t max_in_flight = 2;
  /// Looking up the name, connecting, TLS and handshake together. A name that is found later than
  /// this serves the next attempt.
  std::chrono::milliseconds connect_timeout{1'000};
  /// The oldest command in flight was sent so long ago: the connection is given up.
  std::chrono::milliseconds silence_timeout{250};
  /// The pause after a failed attempt doubles from the first to the second, less up to half of it
  /// at random. After a lost connection there is none, unless it came after other trouble and did
  /// not last as long as the longest pause.
  std::chrono::milliseconds least_pause{10};
  std::chrono::milliseconds most_pause{250};
  /// A longer reply ends the connection.
  std::size_t max_reply_bytes = 64 * 1024 * 1024;
};

/// One connection to one server, kept up for as long as this lives: commands go out as soon as
/// there is room, replies come back in order, and each reaches the command it belongs to or the
/// connection is given up.
///
/// An idle connection that the server closes is renewed at once, and looked at once more before
/// anything is sent on it, so that a command is lost with it by a hair's breadth only. A connection
/// that is given up with a command in flight is reset, so that the server does not receive it
/// later.
///
/// Belongs to the thread that runs the context. Has the context run (IoContext::has_work()) unless
/// it is up and idle.
class RequestPipeline final {
 public:
  /// `context` and `user` outlive it. Throws std::runtime_error where a TLS file cannot be used, or
  /// the server's certificate has no name to be checked for: one sentence.
  RequestPipeline(IoContext& context, PipelineOptions options, ConnectionUser& user);
  /// What is in flight is lost, but the connection is closed in order: what was sent may still
  /// arrive.
  ~RequestPipeline();
  RequestPipeline(const RequestPipeline&) = delete;
  RequestPipeline& operator=(const RequestPipeline&) = delete;

  /// Begins to connect, and does so again whenever the connection is lost. REQUIRES: called once.
  void start();

  /// There may be something to send.
  void flush();

  /// Gives the connection up, as if it had been lost, and connects anew after a pause: the server
  /// is of no use now. `why` is a sentence that names the server. Nothing where there is no
  /// connection and no attempt at one.
  void reconnect(std::string_view why);

  bool is_up() const;
  /// Whether bytes have come that were not received yet: it is this process that is late.
  bool has_unread() const;

 private:
  class State;
  const std::shared_ptr<State> state_;  // Held by its coroutine, too.
};

}  // namespace sluice
