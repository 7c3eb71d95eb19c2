#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/endpoint.h"
#include "net/event_loop.h"
#include "net/exchange.h"

namespace sluice {

/// Whose work a pipeline carries. All are called on the loop's thread. These and an exchange's
/// on_reply() and on_lost() may call the pipeline's kick() and reconnect(), must not destroy it,
/// and throw nothing (next_exchange(), make_framing() and the writing of a question or greeting may
/// run out of memory: the connection is then given up).
class PipelineUser {
 public:
  virtual ~PipelineUser() = default;

  /// The next question, or null where there is none now (kick() asks again). It stays where it is
  /// until it is answered or lost.
  virtual Exchange* next_exchange() = 0;

  /// What a new connection begins with: commands, each with one reply. May be empty, with
  /// greeting_replies() 0.
  virtual std::string greeting() = 0;
  virtual std::size_t greeting_replies() = 0;
  /// The reply to the greeting's i-th command. A sentence where the server is not to be used: the
  /// connection is given up and tried again later.
  virtual std::optional<std::string> on_greeting(std::size_t i, std::string_view reply) = 0;

  virtual std::unique_ptr<Framing> make_framing() = 0;

  /// The server is connected and has greeted.
  virtual void on_up() = 0;
  /// It cannot be reached, has not answered, or has gone. Called once for each attempt that fails
  /// and each connection that is lost, after on_lost() of what was in flight. Another attempt
  /// follows after a pause.
  virtual void on_down(std::string_view why) = 0;
};

struct PipelineOptions {
  Endpoint endpoint;
  /// Questions sent whose replies have not come. At least 1.
  std::size_t max_in_flight = 2;
  /// Resolving, connecting, TLS and greeting together. A name that is resolved later than this
  /// serves the next attempt.
  std::chrono::milliseconds connect_timeout{1'000};
  /// The oldest question in flight was asked so long ago: the connection is given up.
  std::chrono::milliseconds silence_timeout{250};
  /// The pause after a failed attempt doubles from the first to the second, less up to half of it
  /// at random. After a lost connection there is none, unless it came after other trouble and did
  /// not last as long as the longest pause.
  std::chrono::milliseconds least_pause{10};
  std::chrono::milliseconds most_pause{250};
  /// A longer reply ends the connection.
  std::size_t max_reply_bytes = 64 * 1024 * 1024;
};

/// One connection to one server, kept up for as long as this lives: questions go out as soon as
/// there is room, replies come back in order, and each reaches the question it belongs to or the
/// connection is given up. Its circuit breaker is its state: while it is not up, nobody waits for
/// the server, and the greeting is the probe that closes it again.
///
/// An idle connection that the server closes is renewed at once, and looked at once more before
/// anything is sent on it, so that nothing is lost with it but by a hair's breadth. A connection
/// that is given up with a question open is reset, so that the server does not receive it later.
///
/// Members belong to the loop's thread, except run_here().
class Pipeline final {
 public:
  /// `loop` and `user` outlive it; it is destroyed on the loop's thread between two rounds of
  /// events (as EventSink says), or after the loop has ended. Throws std::runtime_error where a TLS
  /// file cannot be used, or the server's certificate has no name to be checked for: one sentence.
  Pipeline(EventLoop& loop, PipelineOptions options, PipelineUser& user);
  /// What is in flight is lost, but the connection is closed in order: what has been sent may still
  /// arrive. Waits for a run_here() that has begun, until its deadline at most; none may begin.
  ~Pipeline();

  /// Begins to connect, and does so again whenever the connection is lost.
  void start();

  /// There may be something to send.
  void kick();

  /// Gives the connection up, as if it had been lost, and connects anew after a pause: the server
  /// has said that it is of no use now. `why` is a sentence that names the server. Nothing where
  /// there is no connection and no attempt at one.
  void reconnect(std::string_view why);

  bool is_up() const;

  enum class Here : std::uint8_t {
    kBusy,        ///< Nothing was done: the connection is not up, not idle, or just found lost.
    kDone,        ///< on_reply() has been called, on this thread.
    kHandedOver,  ///< The reply is late, or something is wrong: on_reply() or on_lost() will be, or
                  ///< has been, called on the loop's thread.
  };

  /// From any thread: where the connection is up and idle, carries out the exchange on the calling
  /// thread, which waits for the reply until `deadline`: an unloaded caller pays for no other
  /// thread's waking. What others want to send meanwhile waits until the connection is handed back.
  /// on_reply() may call this pipeline's kick() and reconnect() here too, but no other pipeline's.
  Here run_here(Exchange& exchange, std::chrono::steady_clock::time_point deadline);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace sluice
