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

/// Why a connection was not accepted, or was closed.
enum class ConnectionEvent : std::uint8_t {
  kNotAccepted,      ///< The system could accept none, most likely for lack of a descriptor.
  kRefused,          ///< Too many were open (StreamServerOptions::max_connections).
  kHandshakeFailed,  ///< The peers did not agree on TLS, or took too long.
  kIdle,             ///< The peer did not begin a request in time (StreamTimeouts::idle).
  kHalfRequest,      ///< It did not send the rest of one in time (StreamTimeouts::request).
  kUnread,           ///< It did not read its replies in time (ConnectionLimits::stuck_timeout).
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
  /// If not null, its connections use TLS. `refusal` is not sent then.
  std::shared_ptr<const TlsServer> tls = {};
  /// Called by the serving threads for each such event.
  std::function<void(ConnectionEvent)> on_event = [](ConnectionEvent) {};
  /// The protocol's name. StreamServer::replace() compares it to see whether an address is served
  /// as before.
  std::string protocol = {};
  /// A socket that listens at the address already, from which the server accepts instead of opening
  /// its own; -1: none. The next process gets the same socket, so when the server stops, it leaves
  /// peers that it has not accepted to that process. The server does not close the socket.
  int passed_socket = -1;
};

}  // namespace sluice
