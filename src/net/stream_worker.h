#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/connection.h"
#include "net/event_loop.h"
#include "net/stream_handler.h"
#include "net/unique_fd.h"

namespace sluice {

/// Accepts from one listening socket. Pauses where the system is out of descriptors or memory,
/// because the socket stays ready and the loop would spin.
class Acceptor final : public EventSink {
 public:
  using Accepted = std::function<void(UniqueFd)>;

  /// Throws std::system_error where the system cannot watch the socket.
  Acceptor(EventLoop& loop, UniqueFd socket, Accepted accepted);
  void on_events(std::uint32_t events) override;
  /// Accepts those who have connected, as far as there are descriptors, and closes the socket.
  void stop();

 private:
  bool accept(int most);
  void hand_over(UniqueFd peer);

  EventLoop& loop_;
  UniqueFd socket_;
  Accepted accepted_;
  Timer pause_;  // Nobody is accepted before its end.
};

/// The connections of one thread. All members belong to the loop's thread, or, before it runs, to
/// the one that made the worker.
class StreamWorker {
 public:
  struct Config {
    std::size_t thread = 0;
    std::size_t max_connections = 0;
    ConnectionLimits limits;
    /// Open connections of all workers. Outlives them.
    std::atomic<std::size_t>& connections;
  };

  explicit StreamWorker(const Config& config);
  ~StreamWorker();

  EventLoop& loop() { return loop_; }

  /// Hands what is accepted from `socket` to `accepted`.
  void listen(UniqueFd socket, Acceptor::Accepted accepted);

  /// Serves a peer, or refuses it. `make_handler` and `refusal` are those of its service.
  void serve(UniqueFd socket, const HandlerFactory& make_handler, const std::string& refusal);

  /// Accepts those who have connected, and closes the listening sockets.
  void stop_accepting();

  /// Answers what one more read of each connection brings, and ends the loop when all is sent or
  /// after `grace`. REQUIRES: neither accepts nor is asked to serve any more.
  void finish(std::chrono::milliseconds grace);

 private:
  void drop(Connection& connection);
  void watch();
  void sweep();

  Config config_;
  EventLoop loop_;
  ConnectionContext context_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Timer sweep_{loop_, [this] { sweep(); }};
  Timer grace_{loop_, [this] { loop_.stop(); }};
};

}  // namespace sluice
