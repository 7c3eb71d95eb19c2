#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/log.h"
#include "stores/memory/snapshot_file.h"

namespace sluice {

/// Where a server keeps the snapshot of its memory store, and how often it is written.
struct SnapshotOptions {
  /// The file; empty for no snapshot.
  std::string file = {};
  std::chrono::nanoseconds every{std::chrono::minutes(1)};

  friend bool operator==(const SnapshotOptions&, const SnapshotOptions&) = default;
};

inline constexpr std::chrono::seconds kLeastSnapshotEvery{1};
inline constexpr std::chrono::hours kMostSnapshotEvery{24};

/// Loads the snapshot of a memory store, and writes it from time to time on a thread of its own.
class SnapshotKeeper {
 public:
  /// Loads the snapshot, if there is one. Logs what it loads and writes, and each error, to `log`.
  /// Throws ConfigError if the file cannot be written, or if it cannot be loaded: a server that
  /// started without its states would open all limits. REQUIRES: no space of the store has been
  /// opened.
  SnapshotKeeper(std::shared_ptr<MemoryStore> store, const SnapshotOptions& options,
                 LogFunction log);
  /// Writes nothing more.
  ~SnapshotKeeper();
  SnapshotKeeper(const SnapshotKeeper&) = delete;
  SnapshotKeeper& operator=(const SnapshotKeeper&) = delete;

  /// Begins to write. After each attempt, the writing thread calls `on_attempt` with whether a
  /// snapshot was written. REQUIRES: called once.
  void start(std::function<void(bool succeeded)> on_attempt);

  /// Makes the thread write a snapshot now and log that. Returns at once.
  void write_soon();

  /// Writes the last snapshot, and logs that. Returns whether it was written. REQUIRES: no other
  /// thread changes the store any more; called at most once, after start().
  bool stop();

 private:
  void load();
  void warn_of_clock(std::int64_t ahead_ns) const;
  void say(LogLevel level, std::string_view event, std::string message,
           std::vector<LogField> fields = {}) const;
  void run();
  void end_thread();
  void write(bool is_asked_for);
  void fail(std::string_view event, const std::string& sentence, bool is_asked_for);

  const std::shared_ptr<MemoryStore> store_;
  const std::chrono::nanoseconds every_;
  const LogFunction log_;
  SnapshotFile file_;
  std::function<void(bool succeeded)> on_attempt_;
  // Why the last one could not be written; empty if it was. Of the thread, and then of stop().
  std::string failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;     // Guarded by mutex_.
  bool stopping_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace sluice
