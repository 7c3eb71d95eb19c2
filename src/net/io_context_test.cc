#include "net/io_context.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <memory>

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = IoContext::Clock;

constexpr auto kNever = std::chrono::hours(1);

TEST(IoTimerTest, RunsOnceAndNotBeforeItsTime) {
  IoContext context;
  int runs = 0;
  IoTimer timer(context, [&] {
    EXPECT_FALSE(timer.is_set());
    ++runs;
  });
  const auto due = Clock::now() + milliseconds(5);
  timer.set(kNever);
  timer.set_at(due);
  EXPECT_TRUE(timer.is_set());
  while (runs == 0) context.asio()->run_one();
  EXPECT_GE(Clock::now(), due);
  context.asio()->poll();
  EXPECT_EQ(runs, 1);
}

TEST(IoTimerTest, DoesNotRunOnceItIsCancelledSetLaterOrDestroyed) {
  IoContext context;
  int runs = 0;
  const auto make = [&] { return std::make_unique<IoTimer>(context, [&] { ++runs; }); };
  const auto cancelled = make();
  const auto later = make();
  auto destroyed = make();
  for (IoTimer* timer : {cancelled.get(), later.get(), destroyed.get()}) timer->set({});
  // Comes first, when all three are due.
  context.post([&] {
    context.asio()->poll_one();
    runs = 0;
    cancelled->cancel();
    later->set(kNever);
    destroyed.reset();
  });
  context.asio()->poll();
  EXPECT_FALSE(cancelled->is_set());
  EXPECT_TRUE(later->is_set());
}

TEST(IoTimerTest, ItsTaskMaySetAndDestroyIt) {
  IoContext context;
  int runs = 0;
  std::unique_ptr<IoTimer> timer;
  timer = std::make_unique<IoTimer>(context, [&] {
    if (++runs == 1) return timer->set({});
    timer.reset();
  });
  timer->set({});
  while (timer != nullptr) context.asio()->run_one();
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace sluice
