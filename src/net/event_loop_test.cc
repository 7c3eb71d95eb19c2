#include "net/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <thread>
#include <vector>

namespace sluice {
namespace {

using std::chrono::milliseconds;

TEST(EventLoopTest, RunsPostedTasksInOrderAndStops) {
  EventLoop loop;
  std::vector<int> order;
  loop.post([&] { order.push_back(1); });
  loop.post([&] {
    order.push_back(2);
    loop.post([&] {
      order.push_back(3);
      loop.stop();
    });
  });
  loop.run();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
}

TEST(EventLoopTest, RunsOnceATaskPostedTwiceAndAgainOnePostedAfterwards) {
  struct Noting : Task {
    std::vector<int>& order;
    explicit Noting(std::vector<int>& o) : order(o) {}
    void run() override { order.push_back(7); }
  };
  EventLoop loop;
  std::vector<int> order;
  const auto task = std::make_shared<Noting>(order);
  loop.post(task);
  loop.post([&] { order.push_back(1); });
  loop.post(task);
  loop.post([&] {
    order.push_back(2);
    loop.post(task);
    loop.stop();
  });
  loop.run();
  EXPECT_THAT(order, testing::ElementsAre(7, 1, 2, 7));
  loop.post(task);
  EXPECT_EQ(task.use_count(), 2);
}

TEST(EventLoopTest, IsWokenFromAnotherThread) {
  EventLoop loop;
  std::thread::id ran_on;
  std::thread other([&] {
    loop.post([&] { ran_on = std::this_thread::get_id(); });
    loop.stop();
  });
  loop.run();
  other.join();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(EventLoopTest, KnowsWhoseThreadItIs) {
  EventLoop loop;
  EXPECT_FALSE(loop.is_here());
  bool inside = false;
  loop.post([&] {
    inside = loop.is_here();
    loop.stop();
  });
  loop.run();
  EXPECT_TRUE(inside);
  EXPECT_FALSE(loop.is_here());
}

// What its own thread posts runs without waking it, from wherever it is posted; another loop's
// thread has to wake it.
TEST(EventLoopTest, RunsWhatWasPostedFromEventsTimersAndOtherLoops) {
  EventLoop loop;
  EventLoop other;
  std::vector<int> order;
  struct Poster : EventSink {
    EventLoop& loop;
    std::vector<int>& order;
    int fd;
    Poster(EventLoop& l, std::vector<int>& o, int f) : loop(l), order(o), fd(f) {}
    void on_events(std::uint32_t) override {
      loop.remove(fd);
      loop.post([this] { order.push_back(1); });
      timer.set(milliseconds(0));
    }
    Timer timer{loop, [this] { loop.post([this] { order.push_back(2); }); }};
  };
  const UniqueFd fd(::eventfd(1, EFD_NONBLOCK));
  Poster poster(loop, order, fd.get());
  ASSERT_TRUE(loop.add(fd.get(), EPOLLIN, poster));
  Timer later(loop, [&] { other.post([&] { loop.post([&] { loop.stop(); }); }); });
  later.set(milliseconds(20));
  std::thread thread([&] { other.run(); });
  loop.run();
  other.stop();
  thread.join();
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
}

TEST(EventLoopTest, TellsASinkAsLongAsItsDescriptorIsReady) {
  struct Sink : EventSink {
    EventLoop& loop;
    int fd;
    std::vector<std::uint32_t> seen;
    Sink(EventLoop& l, int f) : loop(l), fd(f) {}
    void on_events(std::uint32_t events) override {
      seen.push_back(events);
      if (seen.size() == 2) loop.modify(fd, EPOLLOUT, *this);
      if (seen.size() == 3) {
        loop.remove(fd);
        loop.post([this] { loop.stop(); });
      }
    }
  };
  EventLoop loop;
  const UniqueFd fd(::eventfd(1, EFD_NONBLOCK));
  Sink sink(loop, fd.get());
  ASSERT_TRUE(loop.add(fd.get(), EPOLLIN, sink));
  EXPECT_FALSE(loop.add(fd.get(), EPOLLIN, sink));
  loop.run();
  EXPECT_THAT(sink.seen, testing::ElementsAre(EPOLLIN, EPOLLIN, EPOLLOUT));
}

}  // namespace
}  // namespace sluice
