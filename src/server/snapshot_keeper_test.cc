#include "server/snapshot_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "server/config_error.h"
#include "testing/error_of.h"
#include "testing/limited_keys.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
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

  SnapshotOptions options(std::chrono::nanoseconds every = std::chrono::hours(1)) const {
    return {.file = path_, .every = every};
  }

  // Takes a unit from a key. Returns what remains of 9.
  static std::int64_t take(Store& store) {
    return LimitedKeys(store, "token_bucket 9/1d").take("k", store.now()).remaining;
  }

  const std::string folder_ = testing::TempDir() + "sluice_keeper_" + std::to_string(::getpid());
  const std::string path_ = folder_ + "/snapshot";
};

TEST_F(SnapshotKeeperTest, AStoreGoesOnAfterARestart) {
  Lines lines;
  {
    const auto store = std::make_shared<MemoryStore>();
    SnapshotKeeper keeper(store, options(), lines.log());
    keeper.start([](bool) {});
    EXPECT_EQ(take(*store), 8);
    keeper.stop();
  }
  const auto store = std::make_shared<MemoryStore>();
  const SnapshotKeeper keeper(store, options(), lines.log());
  EXPECT_EQ(take(*store), 7);
  EXPECT_THAT(lines.await(3), ElementsAre("there is no snapshot yet in " + path_,
                                          MatchesRegex("wrote 1 key to " + path_ + " in [0-9a-z]+"),
                                          MatchesRegex("loaded 1 key from " + path_ +
                                                       ", written 20[0-9T:.-]+Z, [0-9a-z]+ ago")));
}

TEST_F(SnapshotKeeperTest, ASnapshotIsWrittenWhenAskedForAndFromTimeToTime) {
  Lines lines;
  const auto store = std::make_shared<MemoryStore>();
  {
    SnapshotKeeper keeper(store, options(), lines.log());
    keeper.start([](bool) {});
    keeper.write_soon();
    EXPECT_THAT(lines.await(2).back(), StartsWith("wrote 0 keys"));
  }
  SnapshotKeeper often(store, options(std::chrono::milliseconds(1)), [](const LogEvent&) {});
  const auto written = [&] { return std::filesystem::last_write_time(path_); };
  const auto first = written();
  often.start([](bool) {});
  while (written() == first) std::this_thread::yield();
}

TEST_F(SnapshotKeeperTest, AnErrorIsToldAndTheNextSuccessToo) {
  Lines lines;
  const auto store = std::make_shared<MemoryStore>();
  std::vector<bool> attempts;
  SnapshotKeeper keeper(store, options(), lines.log());
  keeper.start([&](bool succeeded) { attempts.push_back(succeeded); });
  std::filesystem::create_directories(path_ + ".new/in the way");
  keeper.write_soon();
  EXPECT_THAT(lines.await(2).back(),
              StartsWith("no snapshot was written, the former one stays: cannot replace " + path_ +
                         ".new: "));
  std::filesystem::remove_all(path_ + ".new");
  keeper.stop();
  EXPECT_THAT(lines.await(3).back(), StartsWith("wrote 0 keys"));
  EXPECT_THAT(attempts, ElementsAre(false, true));
}

TEST_F(SnapshotKeeperTest, RefusesWhatItCannotKeep) {
  const auto refusal = [&](const std::shared_ptr<MemoryStore>& store, const std::string& path) {
    return error_of<ConfigError>(
        [&] { const SnapshotKeeper keeper(store, {.file = path}, [](const LogEvent&) {}); });
  };
  const auto memory = std::make_shared<MemoryStore>();
  EXPECT_EQ(refusal(memory, folder_ + "/none/s"),
            "snapshot: cannot open " + folder_ + "/none/s.lock: No such file or directory");
  std::ofstream(path_) << "something else";
  EXPECT_EQ(refusal(memory, path_),
            "snapshot: cannot load " + path_ +
                ": it is not a snapshot; move the file away to start without any state, which "
                "opens all limits");
}

}  // namespace
}  // namespace sluice
