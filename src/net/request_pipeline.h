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

/// The user of a pipeline: it supplies the commands, and learns when the connection comes up and
/// goes down. The pipeline calls all members on the thread that runs its context. They, and a
/// command's on_reply() and on_lost(), may call the pipeline's flush() and reconnect(), but must
/// neither destroy it nor throw.
class PipelineUser {
 public:
  virtual ~PipelineUser() = default;

  /// The next command to send, or null if there is none now; the pipeline asks again after flush().
  virtual std::unique_ptr<Command> next_command() = 0;

  /// The bytes that a new connection sends first: commands, each with one reply. May be empty, with
  /// handshake_replies() 0.
  virtual std::string handshake() = 0;
  virtual std::size_t handshake_replies() = 0;
  /// The reply to the handshake's i-th command. Returns a sentence if the server must not be used:
  /// the pipeline closes the connection and connects again after a pause.
  virtual std::optional<std::string> on_handshake_reply(std::size_t i, std::string_view reply) = 0;

  virtual std::unique_ptr<Framing> make_framing() = 0;

  /// The server is connected and has answered the handshake.
  virtual void on_up() = 0;
  /// The server cannot be reached, has not answered, or has closed the connection. Called once for
  /// each failed attempt to connect and each lost connection, after on_lost() of the commands in
  /// flight. `is_broken`: see RequestPipeline::is_broken().
  virtual void on_down(std::string_view why, bool is_broken) = 0;

  /// Called with each reply after the handshake. Returns true if it is a message that belongs to no
  /// command, which the user has handled. Otherwise the pipeline takes it as the reply to the
  /// oldest command in flight; if there is none, it closes the connection.
  virtual bool on_push(std::string_view /*reply*/) { return false; }
};

struct LookupResult;

struct PipelineOptions {
  Endpoint endpoint;
  /// The most commands in flight (sent, and not yet answered). At least 1.
  std::size_t max_in_flight = 2;
  /// For looking up the name, connecting and TLS together. If the lookup ends later, the next
  /// attempt uses its result.
  std::chrono::milliseconds connect_timeout{1'000};
  /// For the answers to the handshake.
  std::chrono::milliseconds handshake_timeout{1'000};
  /// The pipeline gives the connection up if the oldest command in flight has been unanswered for
  /// this long, or if the server has received nothing for this long while bytes are unsent.
  std::chrono::milliseconds silence_timeout{250};
  /// After this long, RequestPipeline::why_not() calls the server silent.
  std::chrono::milliseconds patience{250};
  /// The pauses before attempts: see Backoff. There is none if a connection has ended by itself
  /// that was up for most_pause, or before which nothing has failed.
  std::chrono::milliseconds least_pause{10};
  std::chrono::milliseconds most_pause{250};
  /// The pipeline closes the connection if a reply is longer.
  std::size_t max_reply_bytes = 64 * 1024 * 1024;
  /// For tests: finds the addresses of the endpoint's host. Null: the system is asked.
  LookupResult (*look_up)(const Endpoint&) = nullptr;
};

/// One connection to one server. From start() until the pipeline is destroyed it connects, and
/// connects again whenever the connection is lost. It sends commands in order, as soon as fewer
/// than max_in_flight are in flight, and gives each reply to the oldest command.
///
/// "To give up" a connection means: to close it (to reset it, if commands are in flight), to call
/// on_lost() of these commands and on_down(), and to connect again after a pause, to the next
/// address of the host. After some losses there is no pause: see PipelineOptions::most_pause.
///
/// It is a circuit breaker as well. The breaker is open (is_broken()) from the beginning of a pause
/// until the handshake of a new connection is answered.
///
/// Used only by the thread that runs the context. IoContext::has_work() is true because of it
/// unless the connection is up and idle.
class RequestPipeline {
 public:
  /// `context` and `user` outlive the result. When its last share goes, the pipeline calls
  /// on_lost() of the commands in flight, and closes the connection without a reset, so that what
  /// was sent may still arrive. Throws as TlsClient does.
  static std::shared_ptr<RequestPipeline> make(IoContext& context, PipelineOptions options,
                                               PipelineUser& user);

  /// Begins to connect, and does so again whenever the connection is lost. Does not call the user
  /// within this call. REQUIRES: called once.
  virtual void start() = 0;

  /// Tells the pipeline that next_command() may have a command to send.
  virtual void flush() = 0;

  /// Gives the connection, or the attempt to connect, up. Called when the server must not be used
  /// now. `why` is a sentence that names the server. Does nothing during a pause.
  virtual void reconnect(std::string_view why) = 0;

  virtual bool is_up() const = 0;
  /// The breaker is open: a command should fail now rather than wait for the connection.
  virtual bool is_broken() const = 0;
  /// Why a command should fail now: one sentence, valid until the context runs; empty if it may be
  /// given to the pipeline, or wait for the connection. It should fail if the breaker is open, and
  /// if the oldest command in flight was unanswered, and no other was answered, for
  /// PipelineOptions::patience before `all_read_at`. That is when all that had arrived was read:
  /// of the time since then it is not known whether this process is late, or the server.
  virtual std::string_view why_not(IoContext::Clock::time_point all_read_at) const = 0;
  /// When the oldest command in flight was sent; nothing if there is none.
  virtual std::optional<IoContext::Clock::time_point> waiting_since() const = 0;

 protected:
  ~RequestPipeline() = default;
};

}  // namespace sluice
