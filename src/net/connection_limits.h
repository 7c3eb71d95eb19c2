#pragma once

#include <chrono>
#include <cstddef>

namespace sluice {

/// What a peer may cost that does not read what it is sent.
struct ConnectionLimits {
  /// Output that waits for the peer to read. At this many bytes nothing more is read or answered
  /// until half of them have gone; one call's output may exceed it once.
  std::size_t max_pending_bytes = 1024 * 1024;
  /// A connection is closed when its peer has taken no byte of the pending output for so long.
  std::chrono::milliseconds stuck_timeout{30'000};
  /// After the last output, the peer has so long to end its side, so that it can read the output
  /// before a reset overtakes it.
  std::chrono::milliseconds linger_timeout{2'000};
};

}  // namespace sluice
