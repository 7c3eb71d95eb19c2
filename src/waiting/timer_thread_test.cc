#include "waiting/timer_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

#include "core/fork.h"
#include "testing/child_process.h"
#include "waiting/requests.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using TimePoint = TimerQueue::TimePoint;

TEST(TimerThread, RunsWhatIsPostedInOrderOnItsThread) {
  const auto timer_thread = TimerThread::shared();
  std::vector<int> ran;
  std::promise<std::thread::id> done;
  for (int i = 0; i < 100; ++i) timer_thread->post([&ran, i] { ran.push_back(i); });
  timer_thread->post([&] { done.set_value(std::this_thread::get_id()); });
  EXPECT_NE(done.get_future().get(), std::this_thread::get_id());
  ASSERT_EQ(ran.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST(TimerThread, RunsTimersWhenTheyAreDueAndNotBefore) {
  const auto timer_thread = TimerThread::shared();
  const TimePoint start = timer_thread->now();
  std::promise<TimePoint> late;
  std::promise<TimePoint> early;
  bool has_run_cancelled = false;
  // On its own thread: none runs before all are entered.
  timer_thread->post([&] {
    const auto cancelled =
        timer_thread->at(start + milliseconds(5), [&] { has_run_cancelled = true; });
    timer_thread->at(start + milliseconds(20), [&] { late.set_value(timer_thread->now()); });
    timer_thread->at(start + milliseconds(5), [&] { early.set_value(timer_thread->now()); });
    timer_thread->cancel(cancelled);
  });
  const TimePoint early_ran = early.get_future().get();
  const TimePoint late_ran = late.get_future().get();
  EXPECT_GE(early_ran, start + milliseconds(5));
  EXPECT_GE(late_ran, start + milliseconds(20));
  EXPECT_LT(early_ran, late_ran);
  EXPECT_FALSE(has_run_cancelled);
}

TEST(TimerThread, StaysForCallersThatComeLater) {
  const auto id_of_thread = [] {
    std::promise<std::thread::id> id;
    TimerThread::shared()->post([&] { id.set_value(std::this_thread::get_id()); });
    return id.get_future().get();
  };
  const std::thread::id first = id_of_thread();
  EXPECT_EQ(id_of_thread(), first) << "though no caller has kept it";
}

TEST(TimerThread, ReceivesOnlyTheSignalsOfItsOwnFaults) {
  std::promise<sigset_t> mask;
  TimerThread::shared()->post([&] {
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    mask.set_value(blocked);
  });
  const sigset_t blocked = mask.get_future().get();
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    EXPECT_EQ(::sigismember(&blocked, fault), 0) << fault;
  }
  for (const int other : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPROF, SIGALRM}) {
    EXPECT_EQ(::sigismember(&blocked, other), 1) << other;
  }
}

TEST(TimerThread, AChildOfForkKnowsThatItIsOne) {
  const std::uint64_t generation = fork_generation();
  EXPECT_EQ(in_child_process([&] { return fork_generation() != generation; }), 0);
  EXPECT_EQ(fork_generation(), generation);
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
  EXPECT_EQ(in_child_process([&] {
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
