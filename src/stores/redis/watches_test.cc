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

// The subscriber has no connection without watches, and takes no changes then.
TEST(Watches, SayThatTheFirstComesAndTheLastGoesEvenIfNoChangeWasTaken) {
  int told = 0;
  const auto watches = std::make_shared<Watches>([&] { ++told; });
  auto watch = watches->add("x", [] {});
  EXPECT_EQ(told, 1);
  watch.reset();
  EXPECT_EQ(told, 2);
  watch = watches->add("y", [] {});
  EXPECT_EQ(told, 3);
}

// The server cannot be told as fast as callers come and go.
TEST_F(WatchesTest, ChangesThatNoServerWasToldAreBounded) {
  constexpr std::size_t kName = 1'000;
  std::size_t added = 0;
  while (added <= Watches::kMaxBytes / kName) {
    std::string name = std::to_string(added);
    name.resize(kName, 'x');
    if (watches_->add(std::move(name), [] {}) == nullptr) break;
    ++added;
  }
  EXPECT_EQ(added, Watches::kMaxBytes / kName);
  EXPECT_EQ(watches_->take_changed().size(), added);
  EXPECT_NE(watches_->add("y", [] {}), nullptr);
}

}  // namespace
}  // namespace sluice::redis
