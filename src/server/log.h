#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <string>
#include <string_view>
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

/// Writes events to a stream, each in one piece. An event that cannot be written, or not to its
/// end, is lost; the later ones are written as far as that is possible, on lines of their own.
/// Thread-safe.
class Log {
 public:
  /// `out` outlives this, and nothing else writes to it.
  explicit Log(std::ostream& out) : out_(out) {}

  /// Applies from the next event on.
  void configure(const LogOptions& options);
  void write(const LogEvent& event);

 private:
  std::mutex mutex_;  // Held while the stream is used.
  std::ostream& out_;
  bool is_cut_ = false;  // What was written last is not a whole line. Guarded by mutex_.
  std::atomic<LogFormat> format_ = LogFormat::kText;
  std::atomic<LogLevel> level_ = LogLevel::kInfo;
};

}  // namespace sluice
