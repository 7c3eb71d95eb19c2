#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/service.h"

namespace sluice {

/// The usual bound on what all connections hold together: see StreamServer::set_max_bytes().
inline constexpr std::size_t kMaxClientBytes = std::size_t{256} * 1024 * 1024;

struct StreamServerOptions {
  /// Serving threads, at least 1.
  std::size_t threads = 1;
  /// The most open connections, over all threads and services, apart from Service::reserve. The
  /// server refuses further ones.
  std::size_t max_connections = 10'000;
  ConnectionLimits limits = {};
  /// See StreamServer::set_max_bytes().
  std::size_t max_bytes = kMaxClientBytes;
};

/// Throws ListenError, as StreamServer does, where no file can be made in the folder of a Unix
/// socket, or another file than a socket is at its path. Makes nothing.
void check_place(const Address& address);

/// Accepts connections, and serves each by a StreamHandler of its own, on one of its serving
/// threads. The first thread accepts for all and hands the connections to the threads in turn;
/// while it is busy, none is accepted. ConnectionLimits bound what a peer that does not read costs,
/// Service::timeouts how long one that sends nothing stays connected.
///
/// The members are called from one thread at a time, except set_max_bytes().
class StreamServer {
 public:
  /// Listens: from now on clients can connect, but are served only after start(). Throws
  /// ListenError, or another std::runtime_error if the system has no descriptor left.
  StreamServer(std::vector<Service> services, const StreamServerOptions& options);
  /// Calls stop() without grace.
  ~StreamServer();

  /// The addresses at which it listens, with the real ports, in the order of the services.
  std::vector<Address> addresses() const;

  /// Throws std::system_error where the system starts fewer threads: then nothing is served.
  /// REQUIRES: called once.
  void start();

  /// Serves these services from now on. First listens at the addresses that are new; then calls
  /// `commit`; then closes the addresses that are no longer there, after accepting the peers that
  /// have connected already. An address that stays is served without a gap; if its protocol or TLS
  /// differ, peers that are accepted from then on get the new service. All connections stay open.
  /// If an address cannot be listened on (ListenError), or `commit` throws, nothing has changed.
  /// REQUIRES: start() was called, and stop() was not.
  void replace(std::vector<Service> services, const std::function<void()>& commit);

  /// Closes each connection that is open now after its next reply. Returns when all of them are
  /// closed, or after `timeout`. Accepts and serves other peers meanwhile, as before, except from
  /// sockets that were passed (Service::passed_socket).
  /// REQUIRES: called once; start() was called, and stop() was not.
  void drain(std::chrono::milliseconds timeout);

  /// Accepts the peers that have connected already, and no more. On each connection, answers the
  /// complete requests that have arrived, reading at most 64 KiB more (not while the peer leaves
  /// too much output unread). Sends the pending output for at most `grace`. Then begins no other
  /// reply, sends the rest of those that it has begun for at most `last_replies`, closes all
  /// connections and returns. Does nothing the second time.
  void stop(std::chrono::milliseconds grace, std::chrono::milliseconds last_replies = {});

  /// From now on all connections together hold at most so many bytes of input that they have not
  /// answered and of output that they have not sent, apart from those that hold little
  /// (ClientMemory::kUncountedBytes). One that has grown to more than a quarter of what is left is
  /// closed, if it can with an error (StreamHandler::on_end()). What the serving threads read and
  /// answer before they look is held in addition: some 10 MiB for each of them. Thread-safe.
  void set_max_bytes(std::size_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
