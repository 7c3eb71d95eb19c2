// The disk is full, or fails, at any of the system calls that write a snapshot: the former one
// stays, until the new one is in its place, and the error is said. This program replaces these
// calls for the code that is linked into it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>

#include "servers/temporary_folder.h"
#include "stores/memory/snapshot_file.h"
#include "testing/error_of.h"
#include "testing/memory_keys.h"

namespace {

// How many more calls succeed, and the error of the next; none if that is 0. Only the calls of the
// snapshot's files count, which come after it is set.
int succeeding = 0;
int failure = 0;

bool fails() {
  if (failure == 0 || succeeding-- > 0) return false;
  errno = std::exchange(failure, 0);
  return true;
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names.
extern "C" {
ssize_t __real_write(int file, const void* bytes, std::size_t count);
int __real_fsync(int file);
int __real_close(int file);
int __real_rename(const char* from, const char* to);
ssize_t __real_read(int file, void* bytes, std::size_t count);

// A disk that is nearly full takes a part.
ssize_t __wrap_write(int file, const void* bytes, std::size_t count) {
  if (failure == ENOSPC && succeeding == 0 && count > 1'000) {
    return __real_write(file, bytes, count / 2);
  }
  return fails() ? -1 : __real_write(file, bytes, count);
}
int __wrap_fsync(int file) {
  return fails() ? -1 : __real_fsync(file);
}
int __wrap_close(int file) {
  if (!fails()) return __real_close(file);
  __real_close(file);
  errno = EIO;
  return -1;
}
int __wrap_rename(const char* from, const char* to) {
  return fails() ? -1 : __real_rename(from, to);
}
ssize_t __wrap_read(int file, void* bytes, std::size_t count) {
  return fails() ? -1 : __real_read(file, bytes, count);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace sluice::memory {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class SnapshotErrorsTest : public testing::Test {
 protected:
  SnapshotErrorsTest() {
    LimitedKeys keys(store_, "token_bucket 10/1d", "keys");
    for (std::uint64_t i = 0; i < 50'000; ++i) keys.take(key_name(i), store_.now());
  }
  ~SnapshotErrorsTest() override { failure = 0; }

  // Writes a snapshot of the store while the call numbered `call` fails. Returns what is said.
  std::string write(SnapshotFile& file, int error, int call) {
    succeeding = call;
    failure = error;
    is_in_place_ = false;
    try {
      file.write(store_);
    } catch (const SnapshotNotSynced& said) {
      is_in_place_ = true;
      return said.what();
    } catch (const SnapshotError& said) {
      return said.what();
    }
    return "";
  }

  bool is_in_place_ = false;  // The error of write() was SnapshotNotSynced.
  MemoryStore store_;
  const servers::TemporaryFolder folder_;
  const std::string path_ = folder_.path("snapshot");
};

TEST_F(SnapshotErrorsTest, TheFormerSnapshotStaysUntilTheNewIsInPlace) {
  SnapshotFile file(path_);
  MemoryStore former;
  LimitedKeys(former, "token_bucket 10/1d", "keys").take("former", former.now());
  for (const int error : {ENOSPC, EIO, EDQUOT, EFBIG}) {
    file.write(former);
    int calls = 0;
    int not_synced = 0;
    for (std::string said; !(said = write(file, error, calls)).empty(); ++calls) {
      EXPECT_THAT(said, HasSubstr(folder_.path().native()));
      if (is_in_place_) {
        EXPECT_THAT(said, StartsWith("the snapshot was written, but if the machine fails now, the "
                                     "former one may be back: cannot sync " +
                                     folder_.path().native() + ": "));
        ++not_synced;
      } else {
        EXPECT_THAT(said, StartsWith("cannot "));
      }
      MemoryStore loaded;
      ASSERT_EQ(file.load(loaded).keys, is_in_place_ ? 50'000 : 1) << said;
      EXPECT_FALSE(std::filesystem::exists(path_ + ".new")) << said;
    }
    // Some writes, and one fsync, close and rename, and the folder's fsync.
    EXPECT_GT(calls, 6);
    EXPECT_EQ(not_synced, 1);
    failure = 0;
    MemoryStore loaded;
    EXPECT_EQ(file.load(loaded).keys, 50'000);
  }
}

TEST_F(SnapshotErrorsTest, AreSaidInOneSentence) {
  SnapshotFile file(path_);
  EXPECT_EQ(write(file, ENOSPC, 0), "cannot write " + path_ + ".new: No space left on device");
  EXPECT_EQ(write(file, EIO, 2), "cannot write " + path_ + ".new: Input/output error");
}

TEST_F(SnapshotErrorsTest, AFileThatCannotBeReadIsSaid) {
  SnapshotFile file(path_);
  file.write(store_);
  MemoryStore loaded;
  succeeding = 1;
  failure = EIO;
  EXPECT_EQ(error_of<SnapshotError>([&] { file.load(loaded); }),
            "cannot read " + path_ + ": Input/output error");
}

}  // namespace
}  // namespace sluice::memory
