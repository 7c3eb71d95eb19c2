#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "net/request_pipeline.h"

namespace sluice {

/// What the one connection to a server tells about it, and whether a request should wait for it: a
/// circuit breaker, which the next handshake closes again.
///
/// A request that waits for a connection that was just lost goes on waiting: it may be back in a
/// moment. None does once an attempt to connect has failed, or where the server had been silent, or
/// of no use, when the connection was lost. Belongs to the thread that leads the RemoteWorker, but
/// for what never changes: server(), late() and pipeline_options().
class ServerHealth {
 public:
  using Clock = std::chrono::steady_clock;

  /// `server` is what sentences begin with: "redis 127.0.0.1:6379". It is silent when it has
  /// answered nothing for twice the deadline of a decision.
  ServerHealth(std::string server, std::chrono::nanoseconds deadline);

  const std::string& server() const { return server_; }
  /// What is said of a decision that has not come in time: "x did not answer within 10ms".
  const std::string& late() const { return late_; }
  /// How a connection to the server is made: it is given up after such a silence, though not before
  /// a pipeline would anyway.
  PipelineOptions pipeline_options(const Endpoint& endpoint) const;

  /// The server is connected and has answered the handshake.
  void on_up();
  /// The connection is lost, or an attempt at one has failed.
  void on_down(std::string_view why);
  /// The connection is about to be given up: the server is of no use now.
  void give_up() { given_up_ = true; }
  /// What was sent then is lost without a reply. Before on_down().
  void on_lost(Clock::time_point sent) { given_up_ = given_up_ || is_silent(sent, Clock::now()); }

  /// Nothing should wait for the next connection. False while there is one.
  bool is_broken() const { return broken_; }

  /// Why a request that comes now would wait in vain; empty where it may wait. `oldest` is when the
  /// oldest of what is in flight was sent.
  std::string_view error(std::optional<Clock::time_point> oldest, Clock::time_point now) const;

 private:
  bool is_silent(Clock::time_point since, Clock::time_point now) const {
    return now - since > 2 * deadline_;
  }

  const std::string server_;
  const std::chrono::nanoseconds deadline_;
  const std::string late_;
  const std::string silent_;
  bool was_up_ = false;
  bool given_up_ = false;
  bool broken_ = false;
  std::string down_why_;
};

}  // namespace sluice
