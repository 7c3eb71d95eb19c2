#include "server/snapshot_keeper.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/instant.h"
#include "core/limit_syntax.h"
#include "core/number_text.h"
#include "server/config_error.h"
#include "stores/memory/memory_store.h"

namespace sluice {
namespace {

SnapshotFile open_file(const std::string& path) {
  try {
    return SnapshotFile(path);
  } catch (const SnapshotError& error) {
    throw ConfigError("snapshot: " + std::string(error.what()));
  }
}

// In whole milliseconds, at least one: "1s20ms".
std::string text_of(std::chrono::nanoseconds duration) {
  const std::int64_t milliseconds = duration.count() / kMillisecondNs;
  return format_duration(std::max<std::int64_t>(1, milliseconds) * kMillisecondNs);
}

}  // namespace

SnapshotKeeper::SnapshotKeeper(std::shared_ptr<MemoryStore> store, const SnapshotOptions& options,
                               LogFunction log)
    : store_(std::move(store)),
      every_(options.every),
      log_(std::move(log)),
      file_(open_file(options.file)) {
  load();
}

SnapshotKeeper::~SnapshotKeeper() {
  end_thread();
}

void SnapshotKeeper::load() {
  try {
    if (!file_.exists()) {
      return say(LogLevel::kInfo, "no_snapshot", "there is no snapshot yet in " + file_.path());
    }
    const SnapshotSummary loaded = file_.load(*store_);
    const Instant now = wall_now();
    const bool is_past = now >= loaded.written_at;
    std::string line = "loaded " + counted(loaded.keys, "key") + " from " + file_.path() +
                       ", written " + time_text(loaded.written_at);
    if (is_past) {
      line += ", " + text_of(std::chrono::nanoseconds(now - loaded.written_at)) + " ago";
    } else {
      line += ", which is to come: the machine's clock was set back, so no time counts since then";
    }
    if (loaded.fresh > 0) line += "; " + counted(loaded.fresh, "key") + " had no state left";
    if (loaded.without_room > 0)
      line += "; " + counted(loaded.without_room, "key") + " found no room";
    say(is_past ? LogLevel::kInfo : LogLevel::kWarning, "snapshot_loaded", line,
        {{"keys", static_cast<std::int64_t>(loaded.keys)}});
    warn_of_clock(loaded.clock_ahead_ns);
  } catch (const SnapshotUnusable& error) {
    throw ConfigError("snapshot: " + std::string(error.what()) +
                      "; move the file away to start without any state, which opens all limits");
  } catch (const SnapshotError& error) {
    throw ConfigError("snapshot: " + std::string(error.what()));
  }
}

void SnapshotKeeper::warn_of_clock(std::int64_t ahead_ns) const {
  if (std::abs(ahead_ns) <= kSecondNs) return;
  const bool is_behind = ahead_ns < 0;
  say(LogLevel::kWarning, "store_clock",
      "the store's clock is " + text_of(std::chrono::nanoseconds(std::abs(ahead_ns))) +
          (is_behind ? " behind" : " ahead of") +
          " the machine's, since that was set or the machine suspended; no limit admits more for "
          "it, "
          "but windows of fixed_window begin that much too " +
          (is_behind ? "late" : "early") +
          " until a start without this snapshot, which opens all limits",
      {{"ahead_seconds", in_seconds(ahead_ns)}});
}

void SnapshotKeeper::say(LogLevel level, std::string_view event, std::string message,
                         std::vector<LogField> fields) const {
  fields.push_back({"file", file_.path()});
  log_({level, event, std::move(message), std::move(fields)});
}

void SnapshotKeeper::start(std::function<void(bool succeeded)> on_attempt) {
  assert(!thread_.joinable());
  on_attempt_ = std::move(on_attempt);
  thread_ = std::thread([this] { run(); });
}

void SnapshotKeeper::write_soon() {
  const std::lock_guard lock(mutex_);
  asked_ = true;
  changed_.notify_one();
}

bool SnapshotKeeper::stop() {
  end_thread();
  write(true);
  return failure_.empty();
}

void SnapshotKeeper::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, every_, [&] { return stopping_ || asked_; });
    if (stopping_) return;
    const bool is_asked_for = std::exchange(asked_, false);
    lock.unlock();
    write(is_asked_for);
    lock.lock();
  }
}

void SnapshotKeeper::end_thread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void SnapshotKeeper::write(bool is_asked_for) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    const SnapshotSummary written = file_.write(*store_);
    if (is_asked_for || !failure_.empty()) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      say(LogLevel::kInfo, "snapshot_written",
          "wrote " + counted(written.keys, "key") + " to " + file_.path() + " in " +
              text_of(std::chrono::duration_cast<std::chrono::nanoseconds>(took)),
          {{"keys", static_cast<std::int64_t>(written.keys)}, {"seconds", took.count()}});
    }
    failure_.clear();
    on_attempt_(true);
  } catch (const SnapshotNotSynced& error) {
    fail("snapshot_not_synced", error.what(), is_asked_for);
  } catch (const SnapshotError& error) {
    std::error_code ignored;
    const auto former = std::filesystem::status(file_.path(), ignored).type();
    std::string sentence = "no snapshot was written";
    if (former == std::filesystem::file_type::regular) sentence += ", the former one stays";
    if (former == std::filesystem::file_type::not_found) sentence += ", and there is no former one";
    fail("snapshot_failed", sentence + ": " + error.what(), is_asked_for);
  }
}

// Says each failure once: a disk that is full may be so for hours.
void SnapshotKeeper::fail(std::string_view event, const std::string& sentence, bool is_asked_for) {
  on_attempt_(false);
  if (std::exchange(failure_, sentence) == sentence && !is_asked_for) return;
  say(LogLevel::kError, event, sentence);
}

}  // namespace sluice
