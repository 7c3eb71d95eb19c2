#include "server/snapshot_keeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace sluice {
namespace {

// The lines that a keeper logs, on any thread.
class Lines {
 public:
  LogFunction log() {
    return [this](const LogEvent& event) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(event.message);
      changed_.notify_all();
    };
  }
  // False where none begins so after twenty seconds.
  bool await(const std::string& begin) {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] {
      return std::ranges::any_of(lines_, [&](const auto& line) { return line.starts_with(begin); });
    };
    return changed_.wait_for(lock, std::chrono::seconds(20), is_there);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

class SnapshotKeeperTest : public testing::Test {
 protected:
  SnapshotKeeperTest() { std::filesystem::create_directory(folder_); }
  ~SnapshotKeeperTest() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = testing::TempDir() + "sluice_keeper_" + std::to_string(::getpid());
  const std::string path_ = folder_ + "/snapshot";
};

// The keeper's timer writes the first two snapshots, and the test asks for the third.
TEST_F(SnapshotKeeperTest, AnErrorIsToldAndTheNextSuccessToo) {
  Lines lines;
  const auto store = std::make_shared<MemoryStore>();
  std::vector<bool> attempts;
  const std::string why = ": cannot replace " + path_ + ".new: ";
  {
    SnapshotKeeper keeper(store, {.file = path_, .every = std::chrono::milliseconds(5)},
                          lines.log());
    std::filesystem::create_directories(path_ + ".new/in the way");
    keeper.start([&](bool succeeded) { attempts.push_back(succeeded); });
    EXPECT_TRUE(lines.await("no snapshot was written, and there is no former one" + why));
    std::filesystem::rename(path_ + ".new", folder_ + "/away");
    EXPECT_TRUE(lines.await("wrote 0 keys"));
    keeper.stop();
  }
  EXPECT_FALSE(attempts.front());
  EXPECT_TRUE(attempts.back());
  SnapshotKeeper keeper(store, {.file = path_}, lines.log());
  keeper.start([](bool) {});
  std::filesystem::rename(folder_ + "/away", path_ + ".new");
  keeper.write_soon();
  EXPECT_TRUE(lines.await("no snapshot was written, the former one stays" + why));
  // Whether there is a former one is not known where the path cannot be followed.
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(path_, path_);
  keeper.write_soon();
  EXPECT_TRUE(lines.await("no snapshot was written" + why));
}

}  // namespace
}  // namespace sluice
