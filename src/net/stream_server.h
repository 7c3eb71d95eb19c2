#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/connection_limits.h"
#include "protocols/stream_handler.h"

namespace sluice {

/// One address to serve, and how.
struct Service {
  Address address;
  MakeHandler make_handler;
  /// Sent to a peer that comes when there are too many, before it is closed.
  std::string refusal;
};

struct StreamServerOptions {
  /// Worker threads, at least 1.
  std::size_t threads = 1;
  /// Over all threads and services. One more is refused.
  std::size_t max_connections = 10'000;
  ConnectionLimits limits = {};
};

/// Accepts connections and serves each by a handler of its own, on its own threads. A peer that
/// does not read costs a bounded amount of memory for a bounded time (ConnectionLimits); one that
/// sends nothing may stay. Where the system has no descriptor left, accepting pauses.
///
/// The members are called from one thread at a time, except connections().
class StreamServer {
 public:
  /// Listens: from now on clients can connect, but are served only after start().
  /// Throws ListenError, or another std::runtime_error where the system has no descriptors left.
  StreamServer(std::vector<Service> services, const StreamServerOptions& options);
  /// Stops without grace.
  ~StreamServer();

  /// Where it listens, with the real ports, in the order of the services.
  std::vector<Address> addresses() const;

  /// REQUIRES: called once.
  void start();

  /// Stops accepting, once those that have connected are accepted; answers what has come on each
  /// connection, at most 64 KiB beyond what was read (whole requests only, and none where the peer
  /// leaves too much output unread); sends what is still to be sent for at most `grace`, closes
  /// everything and returns. Does nothing the second time.
  void stop(std::chrono::milliseconds grace);

  /// Connections now open. From any thread.
  std::size_t connections() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
