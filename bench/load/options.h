#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::bench {

enum class Command : std::uint8_t {
  kPing,      ///< PING
  kThrottle,  ///< CL.THROTTLE key:<n> burst count period
  kEvalsha,   ///< EVALSHA sha 1 key:<n> burst count period [now]
};

enum class Reply : std::uint8_t {
  kPong,  ///< +PONG
  kFive,  ///< The five integers of CL.THROTTLE.
};

/// The numbers of the limit in every request.
struct LimitNumbers {
  std::int64_t burst = 1000;
  std::int64_t count = 1;
  std::int64_t period_s = 3600;
};

struct LoadOptions {
  /// "127.0.0.1:6380" or "unix:/run/x.sock".
  std::string address{};
  Command command = Command::kPing;
  Reply reply = Reply::kPong;
  /// The script's SHA-1 in hexadecimal, for kEvalsha.
  std::string sha{};
  LimitNumbers limit{};
  /// Pass the time to the script, which otherwise uses the server's clock.
  bool caller_clock = false;
  /// That time, in microseconds since the Unix epoch: the start of the program, since requests are
  /// rendered in advance.
  std::int64_t now_us = 0;
  std::size_t connections = 50;
  /// How many requests a connection sends before it waits for their replies.
  std::size_t pipeline = 1;
  /// The length of a run in requests, or, if that is 0, in seconds.
  std::uint64_t requests = 0;
  double seconds = 1.0;
  /// Requests use key:0 ... key:<keys - 1>, at random or each once in order.
  std::size_t keys = 1'000'000;
  bool in_order = false;
  /// Print "ready" once connected, and make one run for each line of standard input.
  bool on_demand = false;
};

inline constexpr std::size_t kMostConnections = 10'000;
inline constexpr std::size_t kMostPipelined = 1024;
inline constexpr std::size_t kMostKeys = 100'000'000;

/// Parses the command line. If an argument is invalid, or for --help, prints one sentence or the
/// help to standard error and returns nothing.
std::optional<LoadOptions> parse_options(int count, char** arguments);

}  // namespace sluice::bench
