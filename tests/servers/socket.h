#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "testing/peer.h"

namespace sluice::servers {

/// The timeout of all waits here, after which they throw. A sentinel corrects a server that missed
/// its order to follow another one only after 10 s, when it asks for INFO again.
inline constexpr std::chrono::seconds kPatience{30};

/// A free port of 127.0.0.1, a different one with each call, in all programs that run. It is below
/// the ports that the system uses for outgoing connections, so that it is still free when a server
/// restarts.
std::uint16_t free_port();

/// A listening, non-blocking socket on that port of 127.0.0.1. Throws std::system_error.
UniqueFd listen_on(std::uint16_t port);

/// A connection to this port of 127.0.0.1, or to a Unix socket. Throws std::system_error.
UniqueFd connect_to(std::uint16_t port);
UniqueFd connect_to(const std::filesystem::path& path);

/// The end of a connection, whose functions wait up to kPatience.
inline Peer patient_peer(UniqueFd socket) {
  return Peer(std::move(socket), std::chrono::milliseconds(kPatience).count());
}
/// That of a client of a server.
template <class Address>
Peer peer_at(const Address& address) {
  return patient_peer(connect_to(address));
}

/// The next line, without its CR LF. Throws std::runtime_error if there is none.
std::string read_line(Peer& peer);

}  // namespace sluice::servers
