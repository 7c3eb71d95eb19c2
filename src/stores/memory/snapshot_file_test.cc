#include "stores/memory/snapshot_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "servers/temporary_folder.h"
#include "testing/error_of.h"
#include "testing/memory_keys.h"
#include "testing/unique_fd.h"

namespace sluice::memory {
namespace {

class SnapshotFileTest : public testing::Test {
 protected:
  static std::string refusal(const std::string& path) {
    return error_of<SnapshotError>([&] { const SnapshotFile file(path); });
  }

  const servers::TemporaryFolder folder_;
  const std::string path_ = folder_.path("snapshot");
};

constexpr std::uint64_t kChargedKeys = 5'000;

// Every key is charged this many units.
void charge_all(MemoryStore& store, std::int64_t units) {
  LimitedKeys keys(store, "fixed_window 1000000/1000w", "keys");
  for (std::uint64_t i = 0; i < kChargedKeys; ++i) keys.charge(key_name(i), store.now(), units);
}

// What all keys have been charged, if it is the same for all; else -1.
std::int64_t charged(const SnapshotFile& file) {
  MemoryStore store;
  if (file.load(store).keys != kChargedKeys) return -1;
  LimitedKeys keys(store, "fixed_window 1000000/1000w", "keys");
  const std::int64_t remaining = keys.peek(key_name(0), store.now()).remaining;
  for (std::uint64_t i = 1; i < kChargedKeys; ++i) {
    if (keys.peek(key_name(i), store.now()).remaining != remaining) return -1;
  }
  return 1'000'000 - remaining;
}

TEST_F(SnapshotFileTest, IsLoadedAsItWasWritten) {
  SnapshotFile file(path_);
  EXPECT_FALSE(file.exists());
  MemoryStore store;
  charge_all(store, 3);
  EXPECT_EQ(file.write(store).keys, kChargedKeys);
  EXPECT_TRUE(file.exists());
  EXPECT_EQ(charged(file), 3);
  charge_all(store, 2);
  file.write(store);
  EXPECT_EQ(charged(file), 5);
}

// It has the secret that keys are hashed under, and the ids of permits.
TEST_F(SnapshotFileTest, IsReadByItsOwnerOnly) {
  MemoryStore store;
  SnapshotFile(path_).write(store);
  for (const std::string& name : {path_, path_ + ".lock"}) {
    struct stat status {};
    ASSERT_EQ(::stat(name.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600) << name;
  }
}

TEST_F(SnapshotFileTest, HasOneWriter) {
  {
    const SnapshotFile file(path_);
    EXPECT_EQ(refusal(path_),
              "another process keeps its snapshot in " + path_ + "; each needs a file of its own");
    EXPECT_EQ(refusal(path_ + "2"), "");
  }
  EXPECT_EQ(refusal(path_), "");
}

// The folder was removed, with the file that was locked, and made anew.
TEST_F(SnapshotFileTest, HasOneWriterInAFolderThatWasMadeAnew) {
  const std::string folder = folder_.path("own");
  const std::string path = folder + "/snapshot";
  std::filesystem::create_directory(folder);
  MemoryStore store;
  SnapshotFile file(path);
  const auto make_anew = [&] {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
  };
  make_anew();
  file.write(store);
  const std::string refused =
      "another process keeps its snapshot in " + path + "; each needs a file of its own";
  EXPECT_EQ(refusal(path), refused);
  make_anew();
  const SnapshotFile other(path);
  EXPECT_EQ(error_of<SnapshotError>([&] { file.write(store); }), refused);
}

TEST_F(SnapshotFileTest, SaysWhichFileIsAtFaultAndWhy) {
  EXPECT_EQ(refusal(folder_.path("none/snapshot")),
            "cannot open " + folder_.path("none/snapshot.lock") + ": No such file or directory");
  MemoryStore store;
  const SnapshotFile file(path_);
  EXPECT_EQ(error_of<SnapshotError>([&] { file.load(store); }),
            "cannot read " + path_ + ": No such file or directory");
  std::ofstream(path_) << "something else";
  EXPECT_EQ(error_of<SnapshotUnusable>([&] { file.load(store); }),
            "cannot load " + path_ + ": it is not a snapshot");
}

// A process that was killed has left it behind.
TEST_F(SnapshotFileTest, AFileThatWasNotFinishedIsReplaced) {
  std::ofstream(path_ + ".new") << "half a snap";
  MemoryStore store;
  charge_all(store, 1);
  SnapshotFile file(path_);
  file.write(store);
  EXPECT_EQ(charged(file), 1);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

// Kills a process that writes one snapshot after the other, in each of which all keys have been
// charged one unit more than in the one before. Kills 50, and 500 with SLUICE_TEST_SCALE=10.
TEST_F(SnapshotFileTest, AProcessThatIsKilledLeavesOneSnapshotOrTheNext) {
  const char* scale = std::getenv("SLUICE_TEST_SCALE");
  const int kills = std::max(50, static_cast<int>(50 * (scale != nullptr ? std::atof(scale) : 1)));
  MemoryStore empty;
  charge_all(empty, 1);
  SnapshotFile(path_).write(empty);
  std::mt19937 random(1);
  long longest_wait_ns = 40'000'000;
  std::int64_t last = 1;
  int moved = 0;
  int unfinished = 0;
  for (int i = 0; i < kills; ++i) {
    std::array<int, 2> started{};
    ASSERT_EQ(::pipe(started.data()), 0);
    const pid_t writer = ::fork();
    if (writer == 0) {
      SnapshotFile file(path_);
      MemoryStore store;
      file.load(store);
      if (::write(started[1], "", 1) != 1) ::_exit(1);
      for (;;) {
        charge_all(store, 1);
        file.write(store);
      }
    }
    const UniqueFd reading(started[0]);
    const UniqueFd writing(started[1]);
    char byte = 0;
    ASSERT_EQ(::read(reading.get(), &byte, 1), 1);
    // Until any instant of its next snapshots: no other byte comes.
    pollfd quiet{.fd = reading.get(), .events = POLLIN, .revents = 0};
    const timespec wait{.tv_sec = 0, .tv_nsec = static_cast<long>(random()) % longest_wait_ns};
    ASSERT_EQ(::ppoll(&quiet, 1, &wait, nullptr), 0);
    ASSERT_EQ(::kill(writer, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(status));
    unfinished += std::filesystem::exists(path_ + ".new") ? 1 : 0;
    const std::int64_t now = charged(SnapshotFile(path_));
    ASSERT_GE(now, last) << "after " << i << " kills";
    moved += now > last ? 1 : 0;
    last = now;
    // A busy machine takes longer for a snapshot.
    if (moved == 0) longest_wait_ns = std::min(2 * longest_wait_ns, 900'000'000L);
  }
  EXPECT_GT(moved, 0);
  EXPECT_GT(unfinished, 0);
}

}  // namespace
}  // namespace sluice::memory
