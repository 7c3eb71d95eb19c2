#include "net/io_context.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <memory>

namespace sluice {
namespace {

constexpr auto kNever = std::chrono::hours(1);

TEST(IoTimerTest, DoesNotRunOnceItIsCancelledSetLaterOrDestroyed) {
  IoContext context;
  int runs = 0;
  const auto make = [&] { return std::make_unique<IoTimer>(context, [&] { ++runs; }); };
  const auto first = make();
  const auto cancelled = make();
  const auto later = make();
  auto destroyed = make();
  for (auto* timer : {first.get(), cancelled.get(), later.get(), destroyed.get()}) timer->set({});
  // The first has run when the others, whose waits have ended too, must not run any more.
  context.post([&] {
    context.asio()->poll_one();
    EXPECT_EQ(runs, 1);
    cancelled->cancel();
    later->set(kNever);
    destroyed.reset();
  });
  context.asio()->poll();
  EXPECT_EQ(runs, 1);
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
