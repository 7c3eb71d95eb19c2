#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

/// Counts the connections of one protocol, since the server was started. Thread-safe.
struct ProtocolCounters {
  std::atomic<std::uint64_t> accepted = 0;
  std::atomic<std::uint64_t> closed = 0;
  /// Connections that were refused, because too many were open.
  std::atomic<std::uint64_t> refused = 0;
  /// Connections that were closed because the client's bytes break the protocol's grammar or
  /// bounds.
  std::atomic<std::uint64_t> parse_errors = 0;
  /// Connections that were closed because the client did not begin a request in time.
  std::atomic<std::uint64_t> timed_out_idle = 0;
  /// The same, because it did not send the rest of one.
  std::atomic<std::uint64_t> timed_out_requests = 0;
  /// The same, because it did not read replies.
  std::atomic<std::uint64_t> timed_out_unread = 0;
  /// Connections that were closed because all together held as much as they may.
  std::atomic<std::uint64_t> without_room = 0;
  /// How often a connection could not be accepted, most likely because no descriptor was left.
  std::atomic<std::uint64_t> accept_failures = 0;
  /// Connections that were closed before the TLS handshake was complete.
  std::atomic<std::uint64_t> handshake_failures = 0;
  /// Connections that were closed because the client did not log in in time.
  std::atomic<std::uint64_t> login_timeouts = 0;

  std::uint64_t open() const {
    // Read in this order, so that the difference is never negative.
    const std::uint64_t ended = closed;
    return accepted - ended;
  }
};

/// Counts a connection, from its beginning to its end.
class CountedConnection {
 public:
  /// `counters` outlive this.
  explicit CountedConnection(ProtocolCounters& counters) : counters_(counters) {
    ++counters_.accepted;
  }
  ~CountedConnection() { ++counters_.closed; }
  CountedConnection(const CountedConnection&) = delete;
  CountedConnection& operator=(const CountedConnection&) = delete;

 private:
  ProtocolCounters& counters_;
};

}  // namespace sluice
