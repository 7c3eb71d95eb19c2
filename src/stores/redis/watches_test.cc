#include "stores/redis/watches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>

namespace sluice::redis {
namespace {

class WatchesTest : public testing::Test {
 protected:
  const std::shared_ptr<Watches> watches_ = std::make_shared<Watches>([] {});
};

TEST_F(WatchesTest, OneMayEndAndAnotherBeginWhileItIsCalled) {
  int calls = 0;
  std::unique_ptr<Watch> watch;
  watch = watches_->add("x", [&] {
    ++calls;
    watch = watches_->add("x", [&] { calls += 10; });
  });
  watches_->call("y");
  EXPECT_EQ(calls, 0);
  watches_->call("x");
  EXPECT_EQ(calls, 1);
  watches_->call("x");
  EXPECT_EQ(calls, 11);
}

TEST_F(WatchesTest, AreNotCalledOnceTheyAreGone) {
  std::binary_semaphore began{0};
  std::binary_semaphore go_on{0};
  std::atomic<bool> gone = false;
  std::atomic<bool> ended = false;
  auto watch = watches_->add("x", [&] {
    began.release();
    go_on.acquire();
    ended = !gone;
  });
  std::thread caller([&] { watches_->call("x"); });
  began.acquire();
  std::thread leaver([&] {
    watch.reset();
    gone = true;
  });
  go_on.release();
  leaver.join();
  EXPECT_TRUE(ended);
  caller.join();
}

TEST_F(WatchesTest, AreBoundedAndEndWhenClosed) {
  const auto long_name = watches_->add(std::string(Watches::kMaxBytes, 'x'), [] {});
  EXPECT_NE(long_name, nullptr);
  EXPECT_EQ(watches_->add("y", [] {}), nullptr);
  std::vector<std::unique_ptr<Watch>> many;
  for (std::size_t i = 1; i < Watches::kMaxWatches; ++i) {
    many.push_back(watches_->add("", [] {}));
    ASSERT_NE(many.back(), nullptr);
  }
  EXPECT_EQ(watches_->add("", [] {}), nullptr);
  many.pop_back();
  EXPECT_NE(watches_->add("", [] {}), nullptr);
  watches_->close();
  EXPECT_EQ(watches_->add("", [] {}), nullptr);
}

}  // namespace
}  // namespace sluice::redis
