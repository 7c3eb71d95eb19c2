#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "net/address.h"
#include "net/stream_handler.h"
#include "net/tls_server.h"

namespace sluice {

/// What a peer did not do in time, so that its connection was closed.
enum class PeerTimeout : std::uint8_t {
  kIdle,     ///< It did not begin a request (StreamTimeouts::idle).
  kRequest,  ///< It did not send the rest of a request (StreamTimeouts::request).
  kUnread,   ///< It did not read what it was sent (ConnectionLimits::stuck_timeout).
};

/// One address to serve, and the protocol to serve there. None of the functions may be empty.
struct Service {
  Address address;
  MakeHandler make_handler;
  /// Sent to a peer that connects when max_connections and `reserve` are open; then its connection
  /// is closed.
  std::string refusal;
  StreamTimeouts timeouts = {};
  /// How many connections beyond max_connections this service may open.
  std::size_t reserve = 0;
  /// Called by the serving threads for each peer that is refused.
  std::function<void()> on_refusal = [] {};
  /// If not null, its connections use TLS. `refusal` is not sent then.
  std::shared_ptr<TlsServer> tls = {};
  /// Called by the serving threads for each connection that is closed before it has agreed on TLS,
  /// by either side, or because that took too long.
  std::function<void()> on_handshake_failure = [] {};
  /// Called by the serving threads for each connection that is closed for this reason.
  std::function<void(PeerTimeout)> on_timeout = [](PeerTimeout) {};
  /// Called by the serving threads each time that no connection can be accepted.
  std::function<void()> on_accept_failure = [] {};
  /// The protocol's name. StreamServer::replace() compares it to see whether an address is served
  /// as before.
  std::string protocol = {};
  /// A socket that listens at the address already, from which the server accepts instead of opening
  /// its own; -1: none. The next process gets the same socket, so when the server stops, it leaves
  /// peers that it has not accepted to that process. The server does not close the socket.
  int passed_socket = -1;
};

}  // namespace sluice
