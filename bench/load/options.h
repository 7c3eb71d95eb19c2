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

/// The limit that every throttling request names.
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
  /// A script is told the time by its caller, in place of asking the server for it.
  bool caller_clock = false;
  /// The instant it is then told, in microseconds since the Unix epoch: that of the start, since
  /// requests are rendered in advance.
  std::int64_t now_us = 0;
  std::size_t connections = 50;
  /// Requests a connection sends before it waits for their replies.
  std::size_t pipeline = 1;
  /// How long one run is: so many requests, or, where 0, so many seconds.
  std::uint64_t requests = 0;
  double seconds = 1.0;
  /// Requests draw from key:0 ... key:<keys - 1>, at random or each once in order.
  std::size_t keys = 1'000'000;
  bool in_order = false;
  /// Says "ready" once connected, and makes one run for each line of standard input.
  bool on_demand = false;
};

inline constexpr std::size_t kMostConnections = 10'000;
inline constexpr std::size_t kMostPipelined = 1024;
inline constexpr std::size_t kMostKeys = 100'000'000;

/// Reads the command line. Nothing where an argument is wrong or help was asked for; one sentence
/// (or the help) has then gone to standard error.
std::optional<LoadOptions> parse_options(int count, char** arguments);

}  // namespace sluice::bench
