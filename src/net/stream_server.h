#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/connection.h"
#include "net/listener.h"
#include "net/stream_handler.h"

namespace sluice {

/// One address to serve, and how.
struct Service {
  Address address;
  HandlerFactory make_handler;
  /// Sent to a peer that comes when there are too many, before it is closed.
  std::string refusal;
};

struct StreamServerOptions {
  /// At least 1.
  std::size_t threads = 1;
  /// Over all threads and services. One more is refused.
  std::size_t max_connections = 10'000;
  ConnectionLimits limits = {};
};

class StreamWorker;

/// Accepts streams and serves each by a handler of its own, on its own threads. A peer that does
/// not read costs a bounded amount of memory for a bounded time (ConnectionLimits); one that sends
/// nothing may stay. Where the system has no descriptor left, accepting pauses.
///
/// The members are called from one thread at a time, except connections().
class StreamServer {
 public:
  /// Listens, and refuses nobody from now on, but serves nobody before start().
  /// Throws ListenError, or std::system_error where the system has no descriptors left.
  StreamServer(std::vector<Service> services, const StreamServerOptions& options);
  /// Stops without grace.
  ~StreamServer();

  /// Where it listens, with the real ports, in the order of the services.
  std::vector<Address> addresses() const;

  /// REQUIRES: called once.
  void start();

  /// Stops accepting, once those who have connected are accepted; answers what one more read of
  /// each connection brings (kReadBytes; whole requests only, and none where the peer leaves too
  /// much output unread), sends what is still to be sent for at most `grace`, closes everything and
  /// returns. What a peer has sent beyond that is not answered. Does nothing the second time.
  void stop(std::chrono::milliseconds grace);

  /// Connections now open. From any thread.
  std::size_t connections() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
