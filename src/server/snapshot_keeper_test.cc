#include "server/snapshot_keeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/config_error.h"
#include "testing/error_of.h"
#include "testing/limited_keys.h"
#include "testing/snapshots.h"

namespace sluice {
namespace {

// The lines that a keeper logs, on any thread.
class Lines {
 public:
  LogFunction log() {
    return [this](const LogEvent& event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
      changed_.notify_all();
    };
  }
  // False where none begins so after twenty seconds.
  bool await(const std::string& begin) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return number(begin) > 0; });
  }
  std::ptrdiff_t count(const std::string& begin) {
    const std::lock_guard lock(mutex_);
    return number(begin);
  }
  // Of the warnings alone.
  std::ptrdiff_t count_warnings(const std::string& begin) {
    const std::lock_guard lock(mutex_);
    return number(begin, LogLevel::kWarning);
  }

 private:
  std::ptrdiff_t number(const std::string& begin, std::optional<LogLevel> level = {}) const {
    return std::ranges::count_if(events_, [&](const LogEvent& event) {
      return event.message.starts_with(begin) && event.level == level.value_or(event.level);
    });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LogEvent> events_;
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
  std::atomic<std::size_t> count = 0;
  const std::string why = ": cannot replace " + path_ + ".new: ";
  const std::string failed = "no snapshot was written, and there is no former one" + why;
  {
    SnapshotKeeper keeper(store, {.file = path_, .every = std::chrono::milliseconds(5)},
                          lines.log());
    std::filesystem::create_directories(path_ + ".new/in the way");
    keeper.start([&](bool succeeded) {
      attempts.push_back(succeeded);
      ++count;
      count.notify_one();
    });
    EXPECT_TRUE(lines.await(failed));
    for (std::size_t seen = count; seen < 4; seen = count) count.wait(seen);
    EXPECT_EQ(lines.count(failed), 1);
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

constexpr const char* kLogins = "sliding_log 2/30m";

// The wall clock was an hour behind when the store was opened, and has been put right since.
TEST_F(SnapshotKeeperTest, AClockThatWasSetOpensNoLimit) {
  MemoryStore former;
  former.set_clock(wall_now() - kHourNs);
  LimitedKeys(former, kLogins, "login").take("u", former.now(), 2);
  SnapshotFile(path_).write(former);
  Lines lines;
  const auto store = std::make_shared<MemoryStore>();
  const SnapshotKeeper keeper(store, {.file = path_}, lines.log());
  EXPECT_FALSE(LimitedKeys(*store, kLogins, "login").take("u", store->now()).allowed);
  EXPECT_TRUE(lines.await("loaded 1 key from "));
  EXPECT_EQ(lines.count_warnings("loaded"), 0);
  EXPECT_EQ(lines.count_warnings("the store's clock is "), 1);
}

TEST_F(SnapshotKeeperTest, WarnsOfASnapshotThatIsToCome) {
  MemoryStore former;
  const Instant to_come = wall_now() + kHourNs;
  std::ofstream(path_) << memory::written(former, to_come);
  Lines lines;
  const SnapshotKeeper keeper(std::make_shared<MemoryStore>(), {.file = path_}, lines.log());
  EXPECT_EQ(lines.count_warnings("loaded 0 keys from " + path_), 1);
  EXPECT_EQ(lines.count_warnings("the store's clock is "), 1);
}

// To move the file away would open all limits, and mend nothing.
TEST_F(SnapshotKeeperTest, SaysToMoveTheFileAwayOnlyWhereItsContentIsAtFault) {
  const auto refusal = [&] {
    return error_of<ConfigError>(
        [&] { const SnapshotKeeper keeper(std::make_shared<MemoryStore>(), {.file = path_}, {}); });
  };
  std::ofstream(path_) << "something else";
  EXPECT_EQ(refusal(), "snapshot: cannot load " + path_ +
                           ": it is not a snapshot; move the file away to start without any state, "
                           "which opens all limits");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(refusal(), "snapshot: cannot read " + path_ + ": Is a directory");
}

}  // namespace
}  // namespace sluice
