#include "server/snapshot_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

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
  std::vector<std::string> await(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return lines_.size() >= count; });
    return lines_;
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

TEST_F(SnapshotKeeperTest, AnErrorIsToldAndTheNextSuccessToo) {
  Lines lines;
  const auto store = std::make_shared<MemoryStore>();
  std::vector<bool> attempts;
  SnapshotKeeper keeper(store, {.file = path_}, lines.log());
  keeper.start([&](bool succeeded) { attempts.push_back(succeeded); });
  const std::string in_the_way = ": cannot replace " + path_ + ".new: ";
  std::filesystem::create_directories(path_ + ".new/in the way");
  keeper.write_soon();
  EXPECT_THAT(lines.await(2).back(),
              StartsWith("no snapshot was written, and there is no former one" + in_the_way));
  std::filesystem::remove_all(path_ + ".new");
  keeper.write_soon();
  EXPECT_THAT(lines.await(3).back(), StartsWith("wrote 0 keys"));
  std::filesystem::create_directories(path_ + ".new/in the way");
  keeper.write_soon();
  EXPECT_THAT(lines.await(4).back(),
              StartsWith("no snapshot was written, the former one stays" + in_the_way));
  std::filesystem::remove_all(path_ + ".new");
  keeper.stop();
  EXPECT_THAT(lines.await(5).back(), StartsWith("wrote 0 keys"));
  EXPECT_THAT(attempts, ElementsAre(false, true, false, true));
}

}  // namespace
}  // namespace sluice
