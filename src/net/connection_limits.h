#pragma once

#include <chrono>
#include <cstddef>

namespace sluice {

/// Bounds on what a peer can cost the server if it does not read its replies. A timeout may end up
/// to two sweep_intervals late.
struct ConnectionLimits {
  /// Output that the peer has not taken yet. From this many bytes on, the server neither reads nor
  /// answers on this connection until half of them are sent. The output of one call of the handler
  /// may exceed the bound.
  std::size_t max_pending_bytes = 1024 * 1024;
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

}  // namespace sluice
