#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "net/event_loop.h"
#include "net/stream_handler.h"
#include "net/unique_fd.h"

namespace sluice {

struct ConnectionLimits {
  /// Output that waits for the peer to read. At this many bytes nothing more is read or answered
  /// until half of them have gone; one call's output may exceed it once.
  std::size_t max_pending_bytes = 1024 * 1024;
  /// A peer that has not read a byte of its pending output for so long is closed.
  std::chrono::milliseconds stuck_timeout{30'000};
  /// After the last output, the peer has so long to end its side, so that it can read the output
  /// before a reset overtakes it.
  std::chrono::milliseconds linger_timeout{2'000};
};

/// The most read at once.
inline constexpr std::size_t kReadBytes = 64 * 1024;

class Connection;

/// What the connections of one thread share. The buffers are used within one event only, so that an
/// idle connection holds none, and busy ones find them in the cache.
struct ConnectionContext {
  EventLoop& loop;
  ConnectionLimits limits;
  std::vector<char> input = std::vector<char>(kMaxInputBytes + kReadBytes);
  std::string output;
  /// The server is stopping: only peers that still talk are lingered for.
  bool stopping = false;
  /// Destroys the connection.
  std::function<void(Connection&)> drop;
  /// Some connection has begun to wait for its peer: expired() must be asked from time to time.
  std::function<void()> watch;
};

/// What a connection's handler wakes it by. Lives for as long as anybody may still call wake(),
/// which may be longer than the connection and its loop.
class ConnectionWaker final : public Waker,
                              public Task,
                              public std::enable_shared_from_this<ConnectionWaker> {
 public:
  explicit ConnectionWaker(EventLoop& loop) : loop_(&loop) {}

  void wake() noexcept override;

  // On the loop's thread.
  void run() override;
  void attach(Connection& connection) { connection_ = &connection; }
  /// The connection is about to go.
  void detach();

 private:
  std::mutex mutex_;
  EventLoop* loop_;  // Guarded by mutex_; null once detached.
  Connection* connection_ = nullptr;
};

/// What a connection is made of.
struct ConnectionParts {
  /// Connected, non-blocking.
  UniqueFd socket;
  std::unique_ptr<StreamHandler> handler;
  /// The one the handler was given.
  std::shared_ptr<ConnectionWaker> waker;
};

/// One accepted stream: reads, lets the handler answer, and writes, one read and one write per
/// round where the peer keeps up. While the handler waits for something else than its peer, at most
/// kMaxInputBytes of what comes are kept for it. An exception of the handler, or for want of
/// memory, ends this connection only. Lives on its loop's thread.
class Connection final : public EventSink {
 public:
  /// `context` outlives it.
  Connection(ConnectionParts parts, ConnectionContext& context);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Starts to serve. False where the system cannot watch the socket.
  bool start();

  void on_events(std::uint32_t events) override;

  /// The handler need wait no longer.
  void on_wake();

  /// Answers what one more read brings, and reads no more. True where output remains to be sent,
  /// after which the connection drops itself; false where it can be destroyed at once.
  bool finish_reading();

  /// The peer has kept the connection waiting for longer than the limits allow.
  bool expired(EventLoop::Clock::time_point now) const;

  /// It waits for its peer, so that it may expire.
  bool waits() const { return discarding_ || pending_bytes() != 0; }

  /// Its place among its thread's connections, for whoever keeps them.
  std::size_t index = 0;

 private:
  // Each returns false where the connection is over and is to be dropped.
  bool serve(std::uint32_t events);
  bool receive();
  bool keep();
  bool go_on();
  bool process(std::string_view input);
  bool answer(std::string_view& input);
  bool resume();
  bool send_output();
  bool send_pending();
  bool discard();
  bool settle();
  bool end();
  bool finish();

  void watch_events();
  std::size_t pending_bytes() const { return pending_.size() - pending_sent_; }

  std::size_t room() const { return kMaxInputBytes - std::min(kMaxInputBytes, input_.size()); }

  UniqueFd socket_;
  std::unique_ptr<StreamHandler> handler_;
  std::shared_ptr<ConnectionWaker> waker_;
  ConnectionContext& context_;
  std::uint32_t watched_;
  bool later_ = false;  // The handler waits for its waker.
  bool held_ = false;   // Too much output waits: complete input may stand in input_.
  bool peer_ended_ = false;
  bool no_more_input_ = false;  // The peer has ended, or the server stops.
  bool closing_ = false;        // The handler wants no more: close once the output has gone.
  bool discarding_ = false;     // All has been sent; what still comes is thrown away.
  std::size_t discarded_bytes_ = 0;
  std::string input_;    // Unconsumed.
  std::string pending_;  // Unsent, from pending_sent_ on.
  std::size_t pending_sent_ = 0;
  EventLoop::Clock::time_point waiting_since_;
};

}  // namespace sluice
