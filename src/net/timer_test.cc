#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "net/event_loop.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Timers that note their numbers, and one that ends the loop when all that is due has run.
class TimerTest : public testing::Test {
 protected:
  Timer& noting(int number) {
    return timers_.emplace_back(loop_, [this, number] { order_.push_back(number); });
  }
  // Overdue, so that it does not matter how long it takes to set them.
  static EventLoop::Clock::time_point overdue(int by) { return kNow - hours(by); }

  void run() {
    end_.set(milliseconds(1));
    loop_.run();
  }

  static inline const EventLoop::Clock::time_point kNow = EventLoop::Clock::now();
  EventLoop loop_;
  std::vector<int> order_;
  std::deque<Timer> timers_;
  Timer end_{loop_, [this] { loop_.stop(); }};
};

TEST_F(TimerTest, TimersRunByTimeAndThenInTheOrderOfSetting) {
  Timer& third = noting(3);
  Timer& first = noting(1);
  Timer& second = noting(2);
  third.set_at(overdue(1));
  first.set_at(overdue(2));
  second.set_at(overdue(2));
  run();
  EXPECT_THAT(order_, testing::ElementsAre(1, 2, 3));
}

TEST_F(TimerTest, RunsOnceNoEarlierThanItIsDue) {
  const auto start = EventLoop::Clock::now();
  Timer& timer = noting(1);
  EXPECT_FALSE(timer.is_set());
  EXPECT_EQ(timer.due(), EventLoop::Clock::time_point::max());
  timer.set(milliseconds(10));
  EXPECT_TRUE(timer.is_set());
  EXPECT_GE(timer.due(), start + milliseconds(10));
  end_.set_at(timer.due());
  loop_.run();
  EXPECT_GE(EventLoop::Clock::now() - start, milliseconds(10));
  EXPECT_THAT(order_, testing::ElementsAre(1));
  EXPECT_FALSE(timer.is_set());
}

TEST_F(TimerTest, OneThatIsSetAgainMoves) {
  for (int i = 1; i <= 3; ++i) noting(i).set_at(overdue(5));
  timers_[0].set_at(overdue(4));        // Later.
  timers_[1].set_at(overdue(6));        // Sooner.
  timers_[2].set_at(timers_[0].due());  // Behind another one.
  timers_[0].set_at(timers_[0].due());  // Behind that one in turn.
  noting(4).set_at(overdue(7));
  timers_[3].set(hours(1));
  run();
  EXPECT_THAT(order_, testing::ElementsAre(2, 3, 1));
}

TEST_F(TimerTest, OneThatIsCancelledOrGoneDoesNotRun) {
  Timer& cancelled = noting(1);
  cancelled.set_at(overdue(1));
  cancelled.cancel();
  cancelled.cancel();
  std::optional<Timer> gone(std::in_place, loop_, [this] { order_.push_back(2); });
  gone->set_at(overdue(1));
  gone.reset();
  noting(3).set_at(overdue(1));
  run();
  EXPECT_THAT(order_, testing::ElementsAre(3));
}

// Of those that are due in the same round.
TEST_F(TimerTest, OneMayEndOrMoveAnother) {
  std::optional<Timer> gone(std::in_place, loop_, [this] { order_.push_back(2); });
  Timer first(loop_, [&] {
    order_.push_back(1);
    gone.reset();
    timers_[0].cancel();
    timers_[1].set_at(overdue(1));
  });
  first.set_at(overdue(3));
  gone->set_at(overdue(3));
  noting(3).set_at(overdue(3));
  noting(4).set_at(overdue(3));
  noting(5).set_at(overdue(2));
  run();
  EXPECT_THAT(order_, testing::ElementsAre(1, 5, 4));
}

TEST_F(TimerTest, OneMaySetItselfAgain) {
  Timer again(loop_, [&] {
    order_.push_back(static_cast<int>(order_.size()));
    EXPECT_FALSE(again.is_set());
    order_.size() < 3 ? again.set(milliseconds(0)) : loop_.stop();
  });
  again.set_at(overdue(1));
  loop_.run();
  EXPECT_THAT(order_, testing::ElementsAre(0, 1, 2));
}

// What its task holds goes after the task has ended.
TEST_F(TimerTest, OneMayDestroyItself) {
  const auto held = std::make_shared<std::vector<int>>(100, 7);
  std::unique_ptr<Timer> own;
  own = std::make_unique<Timer>(loop_, [this, &own, copy = held] {
    own.reset();
    order_ = *copy;
  });
  own->set_at(overdue(1));
  run();
  EXPECT_EQ(order_, *held);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Timer, MayOutliveItsLoop) {
  auto loop = std::make_unique<EventLoop>();
  Timer set(*loop, [] {});
  const Timer never_set(*loop, [] {});
  set.set(hours(1));
  loop.reset();
  EXPECT_FALSE(set.is_set());
}

}  // namespace
}  // namespace sluice
