#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "net/address.h"
#include "net/stream_handler.h"
#include "net/tls_server.h"

namespace sluice {

/// Why a connection was refused or closed.
enum class ConnectionEvent : std::uint8_t {
  kRefused,      ///< Too many were open (StreamServerOptions::max_connections).
  kIdle,         ///< The peer did not begin a request in time (StreamTimeouts::idle).
  kHalfRequest,  ///< It did not send the rest of one in time (StreamTimeouts::request).
  kNoLogin,      ///< It did not log in in time (StreamTimeouts::login).
  kUnread,       ///< It did not read its replies in time (ConnectionLimits::stuck_timeout).
  kNoMemory,     ///< It held much, and all together too much (StreamServer::set_max_bytes()).
};

/// Bounds on what a peer can cost the server if it does not read its replies. A timeout may end up
/// to two sweep_intervals late.
struct ConnectionLimits {
  /// Output that the peer has not taken yet. From this many bytes on, the server neither reads nor
  /// answers on this connection until half of them are sent. The output of one call of the handler
  /// may exceed the bound.
  std::size_t max_pending_bytes = 1024 * 1024;
  /// The same for a peer that must log in and has not (StreamHandler::awaits_login()), if less.
  static constexpr std::size_t kMaxPendingBytesBeforeLogin = 64 * 1024;
  /// The server closes the connection if the peer has taken no byte of the pending output for this
  /// long.
  std::chrono::milliseconds stuck_timeout{30'000};
  /// After the last output the server waits this long for the peer to end its side, because closing
  /// earlier may reset the connection before the peer has read the output.
  std::chrono::milliseconds linger_timeout{2'000};
  /// The server closes a connection that has not agreed on TLS this long after it was accepted.
  std::chrono::milliseconds handshake_timeout{10'000};
  /// How often the server looks at each connection whether one of these timeouts, or of
  /// StreamTimeouts, has passed.
  std::chrono::milliseconds sweep_interval{1'000};
};

/// One address to serve, and the protocol to serve there. None of the functions may be empty.
struct Service {
  Address address;
  MakeHandler make_handler;
  /// Sent to a peer that connects when as many are open as may be; then its connection is closed.
  std::string refusal;
  StreamTimeouts timeouts = {};
  /// A new connection counts here, and not towards max_connections, while fewer than so many do.
  /// All services with a reserve share the count. A connection that counts here is not closed for
  /// the memory that all hold (StreamServer::set_max_bytes()).
  std::size_t reserve = 0;
  /// If not null, its connections use TLS. `refusal` is not sent then.
  std::shared_ptr<const TlsServer> tls = {};
  /// Called by the serving threads for each such event.
  std::function<void(ConnectionEvent)> on_event = [](ConnectionEvent) {};
  /// Called for each connection that was closed before the peers had agreed on TLS. `why` is
  /// TlsSession::failure(), and `peer` is AcceptedStream::peer; both are empty if the peer left or
  /// took too long.
  std::function<void(const std::string& peer, const std::string& why)> on_tls_failure =
      [](const std::string&, const std::string&) {};
  /// Called each time that the system could accept no connection, most likely for lack of a
  /// descriptor. `why` is the system's word for it. The server tries again all the time.
  std::function<void(const std::string& why)> on_accept_failure = [](const std::string&) {};
  /// The protocol's name. StreamServer::replace() compares it to see whether an address is served
  /// as before.
  std::string protocol = {};
  /// A socket that listens at the address already, from which the server accepts instead of opening
  /// its own; -1: none. The next process gets the same socket, so when the server stops, it leaves
  /// peers that it has not accepted to that process. The server does not close the socket.
  int passed_socket = -1;
};

}  // namespace sluice
