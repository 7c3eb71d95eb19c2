#pragma once

#include <string>

#include "stores/memory/snapshot.h"

namespace sluice {

/// The new snapshot has taken the former one's place, but the folder could not be synced: a process
/// that starts loads the new one; after a failure of the machine, it may find either.
class SnapshotNotSynced : public SnapshotError {
 public:
  using SnapshotError::SnapshotError;
};

/// The file can be read, but there is no snapshot in it that the store can load.
class SnapshotUnusable : public SnapshotError {
 public:
  using SnapshotError::SnapshotError;
};

/// Keeps a store's snapshot in a file, and is the only one to do so: a second SnapshotFile of the
/// same path, in this process or another one, is refused. Not thread-safe.
///
/// A snapshot is written into PATH.new, which then takes the place of PATH: a process or machine
/// that stops at any point leaves the former snapshot or the new one. Both files can be read by
/// their owner only, since a snapshot has the secret that keys are hashed under.
class SnapshotFile {
 public:
  /// Locks PATH.lock until it is destroyed. Throws SnapshotError if another one has it, or if no
  /// file can be made in the folder.
  explicit SnapshotFile(std::string path);
  ~SnapshotFile();
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;

  const std::string& path() const { return path_; }

  /// Whether there is a snapshot to load.
  bool exists() const;

  /// See load_snapshot(). Throws SnapshotError: a SnapshotUnusable if the content is at fault.
  SnapshotSummary load(MemoryStore& store) const;

  /// See write_snapshot(). If PATH.lock is not the file that was locked, since the folder was made
  /// anew, locks that first. Throws SnapshotError; the former snapshot is then as it was, but for a
  /// SnapshotNotSynced.
  SnapshotSummary write(MemoryStore& store);

 private:
  bool is_locked() const;
  void lock();

  const std::string path_;
  const std::string lock_path_;
  int lock_ = -1;
};

}  // namespace sluice
