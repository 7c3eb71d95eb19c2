#include "server/log.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <ostream>

#include "core/safe_text.h"

namespace sluice {

std::string time_text(Instant time) {
  const auto seconds = static_cast<std::time_t>(time / kSecondNs);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> day{};
  std::strftime(day.data(), day.size(), "%FT%T", &parts);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%s.%03dZ", day.data(),
                static_cast<int>(time % kSecondNs / kMillisecondNs));
  return text.data();
}

namespace {

template <class Number>
void append(std::string& line, Number number) {
  std::array<char, 32> digits;
  line.append(digits.data(), std::to_chars(digits.begin(), digits.end(), number).ptr);
}

void append(std::string& line, const std::string& text) {
  append_json_string(line, text);
}

std::string json_line(const LogEvent& event, Instant time) {
  std::string line = R"({"time":")" + time_text(time) + R"(","level":")";
  line.append(kLogLevels[static_cast<std::size_t>(event.level)]).append(R"(","event":")");
  line.append(event.name).append(R"(","message":)");
  append_json_string(line, event.message);
  for (const LogField& field : event.fields) {
    line.append(",\"").append(field.name).append("\":");
    std::visit([&](const auto& value) { append(line, value); }, field.value);
  }
  return line + "}\n";
}

}  // namespace

std::string log_line(const LogEvent& event, LogFormat format, Instant time) {
  if (format == LogFormat::kJson) return json_line(event, time);
  return "sluice: " + printable(event.message, std::string::npos) + "\n";
}

void Log::configure(const LogOptions& options) {
  format_ = options.format;
  level_ = options.level;
}

void Log::write(const LogEvent& event) {
  if (event.level < level_) return;
  std::string line = log_line(event, format_, wall_now());
  const std::lock_guard lock(mutex_);
  if (is_cut_) line.insert(0, 1, '\n');
  // Unlike the stream, its buffer tells how much it has taken, and keeps no error: if a line cannot
  // be written, for example to a full disk, the next one may be.
  std::streambuf& buffer = *out_.rdbuf();
  const auto taken = static_cast<std::size_t>(buffer.sputn(line.data(), std::ssize(line)));
  buffer.pubsync();
  if (taken > 0) is_cut_ = taken < line.size();
}

}  // namespace sluice
