#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "core/instant.h"

namespace sluice {

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError };
enum class LogFormat : std::uint8_t { kText, kJson };

/// As they are called in options and in the log, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> kLogLevels{"info", "warning", "error"};
inline constexpr std::array<std::string_view, 2> kLogFormats{"text", "json"};

struct LogField {
  std::string_view name;
  std::variant<std::int64_t, double, std::string> value;
};

/// Something that has happened to the server: a line of its log.
struct LogEvent {
  LogLevel level = LogLevel::kInfo;
  /// The event, as one word for programs that stays the same: "store_lost". docs/observing.md lists
  /// all.
  std::string_view name;
  /// The same as a sentence. Any bytes may stand in it.
  std::string message;
  /// The sentence's numbers and names, for programs.
  std::vector<LogField> fields = {};
};

/// Takes events. Thread-safe, throws nothing.
using LogFunction = std::function<void(const LogEvent& event)>;

/// "2026-11-22T17:04:05.123Z"
std::string time_text(Instant time);

/// One line with its end. In JSON an object with the members time, level, event, message and the
/// fields; as text the message alone, after "sluice: ". Neither has a control character. (A logging
/// library would not help: the patterns of spdlog escape neither text nor JSON, and what remains is
/// to write a finished line to a stream.)
std::string log_line(const LogEvent& event, LogFormat format, Instant time);

struct LogOptions {
  LogFormat format = LogFormat::kText;
  /// Events below this level are not written.
  LogLevel level = LogLevel::kInfo;
  /// Decisions that take longer are reported, see SlowDecisions.
  std::chrono::nanoseconds slow = std::chrono::seconds(1);
};

/// Writes events to a stream, on a thread of its own: a caller never waits for the stream, which
/// may be a pipe that nothing reads. While the stream takes nothing, kMaxWaitingBytes of lines wait
/// for it; further events are lost, and a line says how many once the stream takes lines again.
///
/// Each event is written in one piece. One that cannot be written, or not to its end, is lost; the
/// later ones are written as far as that is possible, on lines of their own. Thread-safe.
class Log {
 public:
  static constexpr std::size_t kMaxWaitingBytes = std::size_t{256} * 1024;
  /// How long the end of the log waits for a stream that takes nothing.
  static constexpr std::chrono::seconds kLastWait{1};

  /// `out` outlives this, and nothing else writes to it. If `out` takes nothing at the end of this,
  /// the thread that waits for it is left behind: then `out` must last as long as the process.
  explicit Log(std::ostream& out);
  /// Calls flush().
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Applies from the next event on.
  void configure(const LogOptions& options);
  void write(const LogEvent& event);
  /// Returns when no event waits for the stream, or after kLastWait; false then.
  bool flush();

 private:
  struct Lines;

  const std::shared_ptr<Lines> lines_;
  std::thread writer_;
};

/// Standard error for a Log, which lasts as long as the process. Unlike std::cerr it has no lock,
/// for which the end of the process would wait while a thread of the log waits for a full pipe.
std::ostream& unlocked_standard_error();

}  // namespace sluice
