#include "limiter/timekeeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>
#include <vector>

#include "limiter/child_under_test.h"
#include "limiter/manual_timekeeper.h"
#include "limiter/permit_id.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using TimePoint = Timekeeper::TimePoint;

TEST(Timekeeper, IsOneForAll) {
  const auto one = Timekeeper::shared();
  EXPECT_EQ(one, Timekeeper::shared());
}

TEST(Timekeeper, RunsWhatIsPostedInOrderOnItsThread) {
  const auto keeper = Timekeeper::shared();
  std::vector<int> ran;
  std::promise<std::thread::id> done;
  for (int i = 0; i < 100; ++i) keeper->post([&ran, i] { ran.push_back(i); });
  keeper->post([&] { done.set_value(std::this_thread::get_id()); });
  EXPECT_NE(done.get_future().get(), std::this_thread::get_id());
  ASSERT_EQ(ran.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST(Timekeeper, RunsTimersWhenTheyAreDueAndNotBefore) {
  const auto keeper = Timekeeper::shared();
  const TimePoint start = keeper->now();
  std::promise<TimePoint> late;
  std::promise<TimePoint> early;
  // On its own thread: none runs before all are entered.
  keeper->post([&] {
    keeper->at(start + milliseconds(20), [&] { late.set_value(keeper->now()); });
    keeper->at(start + milliseconds(5), [&] { early.set_value(keeper->now()); });
  });
  const TimePoint early_ran = early.get_future().get();
  const TimePoint late_ran = late.get_future().get();
  EXPECT_GE(early_ran, start + milliseconds(5));
  EXPECT_GE(late_ran, start + milliseconds(20));
  EXPECT_LT(early_ran, late_ran);
}

TEST(Timekeeper, ACancelledTimerDoesNotRun) {
  const auto keeper = Timekeeper::shared();
  bool ran = false;
  std::promise<void> done;
  // On its own thread: it is cancelled before it can run.
  keeper->post([&] {
    const TimePoint when = keeper->now() + milliseconds(5);
    const auto timer = keeper->at(when, [&] { ran = true; });
    keeper->at(when, [&] { done.set_value(); });
    keeper->cancel(timer);
  });
  done.get_future().get();
  EXPECT_FALSE(ran);
}

TEST(Timekeeper, MayEndOnItsOwnThread) {
  std::promise<void> done;
  auto keeper = Timekeeper::shared();
  Timekeeper& shared = *keeper;
  shared.post([last = std::move(keeper), &done]() mutable {
    last.reset();
    done.set_value();
  });
  done.get_future().get();
  // There is another one for who comes later.
  std::promise<void> again;
  Timekeeper::shared()->post([&] { again.set_value(); });
  again.get_future().get();
}

TEST(Timekeeper, AddsUpToTheEndOfTime) {
  const ManualTimekeeper keeper;
  EXPECT_EQ(keeper.after(nanoseconds(7)), keeper.now() + nanoseconds(7));
  EXPECT_EQ(keeper.after(nanoseconds::max()), Timekeeper::kEndOfTime);
  EXPECT_EQ(keeper.after(Timekeeper::kEndOfTime - keeper.now()), Timekeeper::kEndOfTime);
}

TEST(Timekeeper, AChildOfForkKnowsThatItIsOne) {
  const std::uint64_t generation = fork_generation();
  EXPECT_EQ(in_a_child([&] { return fork_generation() != generation; }), 0);
  EXPECT_EQ(fork_generation(), generation);
}

TEST(Timekeeper, AChildOfForkLetsGoOfItsParentsWithoutWaiting) {
  auto keeper = Timekeeper::shared();
  EXPECT_EQ(in_a_child([&] {
              keeper.reset();
              return true;
            }),
            0);
}

TEST(PermitId, AreDifferentAndNeverZero) {
  std::vector<PermitId> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(new_permit_id());
  std::sort(ids.begin(), ids.end());
  EXPECT_NE(ids.front(), 0U);
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

TEST(PermitId, AChildOfForkHasOthers) {
  static_cast<void>(new_permit_id());
  int pipe[2] = {-1, -1};
  ASSERT_EQ(::pipe(pipe), 0);
  EXPECT_EQ(in_a_child([&] {
              const PermitId id = new_permit_id();
              return ::write(pipe[1], &id, sizeof id) == ssize_t{sizeof id};
            }),
            0);
  PermitId childs = 0;
  ASSERT_EQ(::read(pipe[0], &childs, sizeof childs), ssize_t{sizeof childs});
  EXPECT_NE(childs, new_permit_id());
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace sluice
