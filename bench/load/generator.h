#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "load/latency.h"
#include "load/options.h"
#include "load/reply_checker.h"
#include "load/sockets.h"
#include "load/tape.h"

namespace sluice::bench {

/// The results of one run. The latency is from sending a pipeline to its last reply.
struct RunResult {
  std::uint64_t requests = 0;
  double seconds = 0;
  LatencyHistogram latency;
  /// One sentence if the run was broken off; else empty.
  std::string error;
};

/// Keeps every connection busy: each sends a pipeline of requests, awaits and checks all their
/// replies, and sends the next. One thread, level-triggered epoll. Not thread-safe.
class Generator {
 public:
  explicit Generator(const LoadOptions& options);

  /// Opens all connections. Returns one sentence if one cannot be opened; else an empty string.
  std::string connect_all();

  /// Makes one run, whose length the options say. REQUIRES: connect_all() succeeded, and no earlier
  /// run was broken off.
  RunResult run();

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;

  struct Connection {
    Socket socket;
    std::string_view unsent;
    std::size_t awaited = 0;
    std::size_t pipelined = 0;
    std::int64_t sent_at_ns = 0;
    /// Bytes of an incomplete reply, at the front of the buffer.
    std::size_t held = 0;
    bool watches_writes = false;
    std::unique_ptr<std::array<char, kBufferBytes>> buffer;
  };

  bool start_pipeline(Connection* connection);
  bool send_rest(Connection* connection);
  bool receive(Connection* connection);
  bool take_replies(Connection* connection, std::size_t bytes);
  bool finish_pipeline(Connection* connection);
  bool handle(Connection* connection, std::uint32_t events);
  bool break_off(std::string sentence);

  LoadOptions options_;
  Tape tape_;
  ReplyChecker checker_;
  Socket epoll_;
  std::vector<Connection> connections_;
  RunResult result_;
  std::uint64_t started_requests_ = 0;
  std::int64_t begin_ns_ = 0;
  std::int64_t now_ns_ = 0;
};

}  // namespace sluice::bench
