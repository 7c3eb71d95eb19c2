#pragma once

// Includes Boost.Asio, which compiles slowly: to be included by .cc files of this module only.

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "net/asio_types.h"
#include "net/client_memory.h"
#include "net/input_buffer.h"
#include "net/service.h"
#include "net/stream_handler.h"
#include "net/tls_server.h"

namespace sluice {

/// After the server was told to stop, each connection reads at most this many more bytes.
inline constexpr std::size_t kLastReadBytes = 64 * 1024;

/// How many connections are open, of those that share a bound.
struct OpenConnections {
  std::atomic<std::size_t> count{0};
  /// They are in the reserve of a service, and are not closed to free memory.
  const bool is_reserve;
};

class AcceptedConnection;

/// The connections of one serving thread, and what they share. Used by that thread only.
struct ConnectionGroup {
  /// `at_limits` and `of_all` outlive it.
  ConnectionGroup(std::size_t number, const ConnectionLimits& at_limits, ClientMemory& of_all)
      : thread(number), limits(at_limits), memory(of_all) {}

  /// The thread's number, from 0.
  const std::size_t thread;
  const ConnectionLimits& limits;
  ClientMemory& memory;  // That all threads share.
  /// Wake functions hold a share, so that a store can call them even after the server was
  /// destroyed.
  const std::shared_ptr<boost::asio::io_context> context =
      std::make_shared<boost::asio::io_context>(1);
  /// Keeps the context running. Released when the server stops and the last connection has closed.
  boost::asio::executor_work_guard<IoExecutor> work{context->get_executor()};
  std::unordered_set<std::shared_ptr<AcceptedConnection>> members;
  /// Connections that have begun a step and not ended it: see AcceptedConnection::end_steps().
  std::vector<AcceptedConnection*> in_step;
  /// The server is stopping: connections read only what has arrived already.
  bool stopping = false;
  /// As long as there are connections: see AcceptedConnection::sweep().
  SteadyTimer sweep{context->get_executor()};
  bool is_sweeping = false;
  std::size_t next_part = 0;  // The part of the members that the next sweep looks at.

  /// If the server stops, ends the run of the context once no connection is left.
  void end_if_empty() {
    if (!stopping || !members.empty()) return;
    work.reset();
    sweep.cancel();
  }
};

/// One accepted socket: gives what it reads to the protocol's handler, and writes the replies. If
/// memory runs out or the handler throws, this connection alone is closed.
///
/// Each event (a read or a write has ended, the wake function was called) begins a step. The steps
/// of all connections of the thread whose events were ready together also end together: first all
/// of them write, then all of them read again. Asio tries each read at once; this late, it often
/// finds the next request, while right after the write it would fail and waste a system call.
///
/// A server drains, and then stops, by these calls; each of them may be the last:
///
///     call            reads from now on            answers                    drops
///     leave()         as before                    as before, to a reply      nothing
///                                                  that leaves none to make
///     finish()        what has arrived, at most    what it has read           nothing
///                     kLastReadBytes
///     finish_begun()  nothing that it answers      the rest of a reply that   requests, and other
///                                                  has begun to be sent       output
///     close()         nothing                      nothing                    all that the socket
///                                                                             has not taken
///
/// Used by its group's thread only. Kept alive by its group, and by the operations under way.
class AcceptedConnection final : public std::enable_shared_from_this<AcceptedConnection> {
 public:
  /// `group` outlives it. It is one of `counted`, until it closes.
  AcceptedConnection(IoSocket socket, ConnectionGroup& group,
                     std::shared_ptr<const Service> service, OpenConnections& counted);

  /// Joins the group and serves.
  void start();

  /// Closes after the next reply, once all requests that have come are answered, and then gives up
  /// its share of `left`: StreamServer::drain() waits until no connection has one. REQUIRES: called
  /// once.
  void leave(std::shared_ptr<void> left);

  /// Reads at most kLastReadBytes of what has arrived, answers it, sends all output and closes.
  /// REQUIRES: group.stopping.
  void finish();

  /// Begins no other reply: drops the output of which nothing has been sent, sends the rest of what
  /// has been begun, and closes. REQUIRES: group.stopping.
  void finish_begun();

  /// Closes at once, and leaves the group.
  void close();

 private:
  /// kClosing: no more is answered; when the output has gone, it lingers. kLingering: all has been
  /// sent; what still comes is ignored until the peer has ended its side, too.
  enum class Phase : std::uint8_t { kOpen, kClosing, kLingering };

  template <class Step>
  void run(Step step);
  bool is_unix() const { return service_->address.family == Address::Family::kUnix; }
  std::string peer() const;
  std::string peer_with_port() const;
  Wake make_wake();
  void make_handler();

  // The steps.
  void on_read(const boost::system::error_code& error, std::size_t bytes);
  void on_written(const boost::system::error_code& error, std::size_t bytes);
  void on_wake();
  void answer();
  void go_on_after_others();
  void end_step_soon();
  static void end_steps(ConnectionGroup& group);

  // The ends of steps.
  void send_output();
  std::size_t max_pending_bytes() const;
  void go_on();
  void bound_memory();
  std::size_t held_bytes();

  void read();
  void write();
  void linger();
  void open_received();
  bool fill_input();
  void await_input(bool has_part, bool has_written);
  void end_if_overdue(SteadyTimer::time_point now);
  void watch_login(SteadyTimer::time_point now);
  static void sweep(ConnectionGroup& group);

  bool is_not_awaited() const;
  bool more_has_come() const;
  void ignore_input();
  /// Where the socket's bytes go.
  InputBuffer& received() { return tls_ ? tls_->received() : input_; }
  /// What is given to the socket next.
  std::string& to_send() { return tls_ ? tls_->to_send() : output_; }
  /// Of a write under way, and what is to be sent after it.
  std::size_t pending_bytes() { return sending_.size() - sent_ + to_send().size(); }

  ConnectionGroup& group_;
  const std::shared_ptr<const Service> service_;
  OpenConnections& counted_;
  IoSocket socket_;
  // When the peer has read nothing of the pending output for too long, or has not ended its side
  // while the connection lingers; checked by sweep().
  SteadyTimer::time_point output_deadline_ = SteadyTimer::time_point::max();
  // When the peer has sent nothing for too long; checked by sweep().
  SteadyTimer::time_point deadline_ = SteadyTimer::time_point::max();
  // When the peer has not said who it is for too long; max() where it need not. See watch_login().
  SteadyTimer::time_point login_deadline_ = SteadyTimer::time_point::max();
  std::optional<TlsSession> tls_;           // If the service speaks TLS.
  std::unique_ptr<StreamHandler> handler_;  // Null until the peers have agreed on TLS.
  InputBuffer input_;                       // For the handler.
  std::string output_;                      // Replies, not given to TLS or the socket yet.
  std::string sending_;                     // Given to the write under way, from sent_ on.
  std::size_t sent_ = 0;
  std::size_t counted_bytes_ = 0;            // In ClientMemory, of all that is held.
  std::size_t last_bytes_ = kLastReadBytes;  // What may still be read while the server stops.
  std::shared_ptr<void> leaving_;            // Set: close after the next reply. See leave().
  Phase phase_ = Phase::kOpen;
  bool has_part_ = false;  // A part of a request has come.
  bool in_step_ = false;   // Its step has not ended.
  bool reading_ = false;   // A read is under way.
  // Nothing is answered before on_wake(): the handler waits for a store, or its turn was cut short.
  bool awaits_wake_ = false;
  bool was_cut_ = false;        // The latter.
  bool wrote_ = false;          // A turn that was cut short has written.
  bool held_ = false;           // Too much output is pending: input_ is not answered meanwhile.
  bool peer_ended_ = false;     // The peer has ended its side.
  bool no_more_input_ = false;  // The same, or the server stops.
};

}  // namespace sluice
