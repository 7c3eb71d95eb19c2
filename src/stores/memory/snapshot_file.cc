#include "stores/memory/snapshot_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;
constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw SnapshotError("cannot " + what + " " + path + ": " +
                      std::generic_category().message(errno));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A descriptor, and the path for what is said of it.
class File {
 public:
  File(const char* what, std::string path, int flags)
      : path_(std::move(path)), fd_(::open(path_.c_str(), flags | O_CLOEXEC, kOwnerOnly)) {
    if (fd_ < 0) fail(what, path_);
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("write", path_);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  // Throws std::system_error.
  std::size_t read(std::span<char> room) {
    std::size_t read = 0;
    while (read < room.size()) {
      const ssize_t count = ::read(fd_, room.data() + read, room.size() - read);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw std::system_error(errno, std::generic_category());
      if (count == 0) break;
      read += static_cast<std::size_t>(count);
    }
    return read;
  }

  void sync() {
    if (::fsync(fd_) != 0) fail("sync", path_);
  }
  void close() {
    if (::close(std::exchange(fd_, -1)) != 0) fail("write", path_);
  }

 private:
  const std::string path_;
  int fd_;
};

}  // namespace

SnapshotFile::SnapshotFile(std::string path) : path_(std::move(path)), lock_path_(path_ + ".lock") {
  lock();
}

SnapshotFile::~SnapshotFile() {
  ::close(lock_);
}

// Whether the file that others would lock is the one that this object has locked.
bool SnapshotFile::is_locked() const {
  struct stat held {};
  struct stat there {};
  return ::fstat(lock_, &held) == 0 && ::lstat(lock_path_.c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

void SnapshotFile::lock() {
  const int file =
      ::open(lock_path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
  if (file < 0) fail("open", lock_path_);
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) {
    if (lock_ >= 0) ::close(lock_);
    lock_ = file;
    return;
  }
  const int error = errno;
  ::close(file);
  errno = error;
  if (error != EWOULDBLOCK) fail("lock", lock_path_);
  throw SnapshotError("another process keeps its snapshot in " + path_ +
                      "; each needs a file of its own");
}

bool SnapshotFile::exists() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0) return true;
  if (errno != ENOENT) fail("read", path_);
  return false;
}

SnapshotSummary SnapshotFile::load(MemoryStore& store) const {
  File file("read", path_, O_RDONLY);
  std::string buffer(kBufferBytes, '\0');
  std::string_view rest;
  const auto read = [&](std::span<char> room) {
    std::size_t done = 0;
    while (done < room.size()) {
      if (rest.empty()) rest = std::string_view(buffer).substr(0, file.read(buffer));
      if (rest.empty()) break;
      const std::size_t count = rest.copy(room.data() + done, room.size() - done);
      rest.remove_prefix(count);
      done += count;
    }
    return done;
  };
  try {
    return load_snapshot(store, wall_now(), read);
  } catch (const std::system_error& error) {
    throw SnapshotError("cannot read " + path_ + ": " + error.code().message());
  } catch (const SnapshotError& error) {
    throw SnapshotUnusable("cannot load " + path_ + ": " + error.what());
  }
}

SnapshotSummary SnapshotFile::write(MemoryStore& store) {
  if (!is_locked()) lock();
  const std::string beside = path_ + ".new";
  if (::unlink(beside.c_str()) != 0 && errno != ENOENT) fail("replace", beside);
  File file("write", beside, O_WRONLY | O_CREAT | O_EXCL);
  SnapshotSummary summary;
  try {
    std::string buffer;
    buffer.reserve(2 * kBufferBytes);
    const auto flush = [&] {
      file.write(buffer);
      buffer.clear();
    };
    summary = write_snapshot(store, store.now(), wall_now(), [&](std::string_view bytes) {
      buffer += bytes;
      if (buffer.size() >= kBufferBytes) flush();
    });
    flush();
    file.sync();
    file.close();
    if (::rename(beside.c_str(), path_.c_str()) != 0) fail("replace", path_);
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  try {
    File folder("open", folder_of(path_), O_RDONLY | O_DIRECTORY);
    folder.sync();
  } catch (const SnapshotError& error) {
    throw SnapshotNotSynced(
        "the snapshot was written, but if the machine fails now, the former one may be back: " +
        std::string(error.what()));
  }
  return summary;
}

}  // namespace sluice
