#include "stores/redis/watches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <semaphore>
#include <thread>

namespace sluice::redis {
namespace {

using Names = std::vector<std::string>;
using Changes = std::set<std::string>;

struct Counted {
  int changes = 0;
  std::shared_ptr<Watches> watches = std::make_shared<Watches>([this] { ++changes; });
};

TEST(Watches, TellOfChannelsThatComeAndGo) {
  Counted counted;
  auto& watches = *counted.watches;
  EXPECT_TRUE(watches.empty());
  auto first = watches.add("a", [] {});
  auto second = watches.add("a", [] {});
  auto other = watches.add("b", [] {});
  EXPECT_EQ(counted.changes, 1);
  EXPECT_EQ(watches.take_changed(), (Changes{"a", "b"}));
  first.reset();
  EXPECT_EQ(watches.take_changed(), Changes{});
  EXPECT_TRUE(watches.wants("a"));
  second.reset();
  EXPECT_EQ(counted.changes, 2);
  EXPECT_EQ(watches.take_changed(), Changes{"a"});
  EXPECT_FALSE(watches.wants("a"));
  EXPECT_EQ(watches.channels(), Names{"b"});
}

TEST(Watches, CallThoseOfTheChannelInTheirOrder) {
  Counted counted;
  std::string called;
  const auto a = counted.watches->add("x", [&] { called += 'a'; });
  const auto b = counted.watches->add("y", [&] { called += 'b'; });
  const auto c = counted.watches->add("x", [&] { called += 'c'; });
  counted.watches->call("x");
  EXPECT_EQ(called, "ac");
  counted.watches->call("z");
  EXPECT_EQ(called, "ac");
}

TEST(Watches, OneMayEndAndOthersBeginWhileItIsCalled) {
  Counted counted;
  int calls = 0;
  std::unique_ptr<Watch> itself;
  std::unique_ptr<Watch> next;
  std::vector<std::unique_ptr<Watch>> more;
  itself = counted.watches->add("x", [&] {
    ++calls;
    next.reset();
    more.push_back(counted.watches->add("x", [&] { calls += 100; }));
    itself.reset();
  });
  next = counted.watches->add("x", [&] { calls += 10; });
  counted.watches->call("x");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(itself, nullptr);
  counted.watches->call("x");
  EXPECT_EQ(calls, 101);
}

TEST(Watches, AreNotCalledOnceTheyAreGone) {
  Counted counted;
  std::binary_semaphore began{0};
  std::binary_semaphore go_on{0};
  std::atomic<bool> gone = false;
  std::atomic<bool> ended = false;
  auto watch = counted.watches->add("x", [&] {
    began.release();
    go_on.acquire();
    ended = !gone;
  });
  std::thread caller([&] { counted.watches->call("x"); });
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

TEST(Watches, AreBoundedAndEndWhenClosed) {
  Counted counted;
  const auto long_name = counted.watches->add(std::string(Watches::kMaxBytes, 'x'), [] {});
  EXPECT_NE(long_name, nullptr);
  EXPECT_EQ(counted.watches->add("y", [] {}), nullptr);
  std::vector<std::unique_ptr<Watch>> many;
  for (std::size_t i = 1; i < Watches::kMaxWatches; ++i) {
    many.push_back(counted.watches->add("", [] {}));
    ASSERT_NE(many.back(), nullptr);
  }
  EXPECT_EQ(counted.watches->add("", [] {}), nullptr);
  many.pop_back();
  EXPECT_NE(counted.watches->add("", [] {}), nullptr);
  counted.watches->close();
  EXPECT_EQ(counted.watches->add("", [] {}), nullptr);
}

}  // namespace
}  // namespace sluice::redis
