#include "server/log.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <deque>
#include <mutex>
#include <ostream>
#include <utility>

#include "core/number_text.h"
#include "core/safe_text.h"
#include "core/without_signals.h"

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

std::string json_line(const LogEvent& event, Instant time) {
  std::string line = R"({"time":")" + time_text(time) + R"(","level":")";
  line.append(kLogLevels[static_cast<std::size_t>(event.level)]).append(R"(","event":")");
  line.append(event.name).append(R"(","message":)");
  append_json_string(line, event.message);
  for (const LogField& field : event.fields) {
    line.append(",\"").append(field.name).append("\":");
    std::visit(
        [&]<class Value>(const Value& value) {
          if constexpr (std::is_same_v<Value, std::string>) {
            append_json_string(line, value);
          } else {
            append_number(line, value);
          }
        },
        field.value);
  }
  return line + "}\n";
}

class StandardError final : public std::streambuf {
 private:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    std::streamsize taken = 0;
    while (taken < count) {
      const ssize_t written =
          ::write(STDERR_FILENO, bytes + taken, static_cast<std::size_t>(count - taken));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EAGAIN) {  // Another process may have set O_NONBLOCK.
        pollfd file{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
        ::poll(&file, 1, -1);
        continue;
      }
      if (written <= 0) break;
      taken += written;
    }
    return taken;
  }
};

}  // namespace

std::ostream& unlocked_standard_error() {
  // Never destroyed, since a thread may still use it when the process ends.
  static std::ostream& stream = *new std::ostream(new StandardError);
  return stream;
}

std::string log_line(const LogEvent& event, LogFormat format, Instant time) {
  if (format == LogFormat::kJson) return json_line(event, time);
  return "sluice: " + printable_sentence(event.message) + "\n";
}

/// What the callers and the writing thread share. The thread may outlive the Log.
struct Log::Lines {
  explicit Lines(std::ostream& stream) : out(stream) {}

  /// Writes lines until the log ends.
  void write_all();
  /// Gives a line to the stream.
  void put(std::string line);
  /// Tells of the lost events, after the lines that wait: those are older. REQUIRES: mutex is held.
  void add_loss();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> waiting;  // Until they are written. Guarded by mutex.
  std::size_t waiting_bytes = 0;    // Guarded by mutex.
  std::int64_t lost = 0;            // Events of which no line tells yet. Guarded by mutex.
  bool is_ending = false;           // Guarded by mutex.
  std::atomic<LogFormat> format = LogFormat::kText;
  std::atomic<LogLevel> level = LogLevel::kInfo;

  // Used by the writing thread alone.
  std::ostream& out;
  bool is_cut = false;  // What was written last is not a whole line.
};

void Log::Lines::write_all() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return is_ending || !waiting.empty(); });
    if (waiting.empty()) return;
    std::string line = std::move(waiting.front());
    waiting_bytes -= line.size();
    lock.unlock();
    put(std::move(line));
    lock.lock();
    waiting.pop_front();
    if (lost != 0) add_loss();
    changed.notify_all();
  }
}

void Log::Lines::put(std::string line) {
  if (is_cut) line.insert(0, 1, '\n');
  // Unlike the stream, its buffer tells how much it has taken, and keeps no error: if a line cannot
  // be written, for example to a full disk, the next one may be.
  std::streambuf& buffer = *out.rdbuf();
  const auto taken = static_cast<std::size_t>(buffer.sputn(line.data(), std::ssize(line)));
  buffer.pubsync();
  if (taken > 0) is_cut = taken < line.size();
}

void Log::Lines::add_loss() {
  const LogEvent loss{
      LogLevel::kWarning,
      "log_lines_lost",
      "lines of this log are lost, because they were not read in time: " + std::to_string(lost),
      {{"lines", lost}}};
  lost = 0;
  if (loss.level < level) return;
  waiting.push_back(log_line(loss, format, wall_now()));
  waiting_bytes += waiting.back().size();
}

Log::Log(std::ostream& out) : lines_(std::make_shared<Lines>(out)) {
  const WithoutSignals without_signals;
  writer_ = std::thread([lines = lines_] { lines->write_all(); });
}

Log::~Log() {
  const bool is_written = flush();
  {
    const std::lock_guard lock(lines_->mutex);
    lines_->is_ending = true;
  }
  lines_->changed.notify_all();
  is_written ? writer_.join() : writer_.detach();
}

void Log::configure(const LogOptions& options) {
  lines_->format = options.format;
  lines_->level = options.level;
}

void Log::write(const LogEvent& event) {
  Lines& lines = *lines_;
  if (event.level < lines.level) return;
  std::string line = log_line(event, lines.format, wall_now());
  {
    const std::lock_guard lock(lines.mutex);
    if (!lines.waiting.empty() && lines.waiting_bytes + line.size() > kMaxWaitingBytes) {
      ++lines.lost;
      return;
    }
    lines.waiting_bytes += line.size();
    lines.waiting.push_back(std::move(line));
  }
  lines.changed.notify_all();
}

bool Log::flush() {
  std::unique_lock lock(lines_->mutex);
  return lines_->changed.wait_for(lock, kLastWait, [this] { return lines_->waiting.empty(); });
}

}  // namespace sluice
