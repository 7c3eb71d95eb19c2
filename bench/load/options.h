#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::bench {

enum class Command : std::uint8_t {
  kPing,      ///< PING
  kThrottle,  ///< CL.THROTTLE key:<n> burst count period
  kCheck,     ///< SLUICE.CHECK with the same limit as an expression, and key:<n>
  kEvalsha,   ///< EVALSHA sha 1 key:<n> burst count period [now]
  kNewLimit,  ///< SLUICE.CHECK with a burst, and so an expression, that was never sent before
};

enum class Reply : std::uint8_t {
  kPong,  ///< +PONG
  kFive,  ///< The five integers of CL.THROTTLE.
  kSix,   ///< The six integers of SLUICE.CHECK.
};

/// Which key a request has.
enum class Order : std::uint8_t {
  kRandom,   ///< key:0 ... key:<keys - 1>, each with the same probability
  kInOrder,  ///< each of these once
  kNew,      ///< a key that was never sent before
  kZipf,     ///< nine of ten by Zipf's law, with a probability of 1/rank, and one that is new
};

/// The numbers of the limit in every request.
struct LimitNumbers {
  std::int64_t burst = 1000;
  std::int64_t count = 1;
  std::int64_t period_s = 3600;
};

struct LoadOptions {
  /// "127.0.0.1:6380".
  std::string address{};
  Command command = Command::kPing;
  /// That of the command.
  Reply reply = Reply::kPong;
  /// The script's SHA-1 in hexadecimal, for kEvalsha.
  std::string sha{};
  LimitNumbers limit{};
  /// The numbers of every other key, if not the same.
  std::optional<LimitNumbers> other_limit{};
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
  std::size_t keys = 1'000'000;
  Order order = Order::kRandom;
  /// Print "ready" once connected, and make one run for each line of standard input.
  bool on_demand = false;
};

/// The first of the numbers in keys and limits that were never sent before. All have as many
/// digits.
inline constexpr std::int64_t kFirstNew = 1'000'000'000;
inline constexpr int kNewDigits = 10;

inline constexpr std::size_t kMostConnections = 10'000;
inline constexpr std::size_t kMostPipelined = 1024;
inline constexpr std::size_t kMostKeys = 100'000'000;

/// Parses the command line. If an argument is invalid, or for --help, prints one sentence or the
/// help to standard error and returns nothing.
std::optional<LoadOptions> parse_options(int count, char** arguments);

}  // namespace sluice::bench
