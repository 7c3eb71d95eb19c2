#include "waiting/waiting_callers.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "testing/manual_timer_queue.h"
#include "testing/scripted_store.h"
#include "waiting/wait_queues.h"

namespace sluice {
namespace {

TEST(WaitingCallers, RememberEachResetAndTakeFewOtherKeysForReset) {
  WaitingCallers callers;
  const WaitingCallers of_another_limit;
  const auto before = WaitingCallers::wakings();
  EXPECT_FALSE(callers.was_reset("k", before));
  callers.begin_reset("k");
  callers.wake("blocked", Waking::kBlocked);
  const auto since = WaitingCallers::wakings();
  const auto reset = [&](int first, int last) {
    for (int i = first; i < last; ++i) callers.begin_reset(std::to_string(i));
  };
  // Of 10,000 keys from `first` on.
  const auto were_reset = [&](const WaitingCallers& limit, int first) {
    int count = 0;
    for (int i = first; i < first + 10'000; ++i) count += limit.was_reset(std::to_string(i), since);
    return count;
  };
  reset(0, 1'000);
  EXPECT_TRUE(callers.was_reset("k", before));
  EXPECT_FALSE(callers.was_reset("blocked", before));
  EXPECT_FALSE(of_another_limit.was_reset("k", before));
  EXPECT_LE(were_reset(callers, 1'000), 20) << "on average 2";
  reset(1'000, 10'000);
  EXPECT_EQ(were_reset(callers, 0), 10'000);
  EXPECT_NEAR(were_reset(callers, 10'000), 200, 100);
  EXPECT_NEAR(were_reset(of_another_limit, 0), 200, 100) << "of the same keys";
}

TEST(WaitingCallers, SetATimerOnlyForOneThatMayAsk) {
  const auto timer = std::make_shared<ManualTimerQueue>();
  const LimitBinding binding(std::make_shared<ScriptedStore>(), Limit("token_bucket 1/1s"),
                             LimitBinding::Kind::kUnits, &WaitQueues::of);
  WaitingCallers callers;
  const auto come = [&](WaitingCallers::Ask ask) {
    return std::make_unique<WaitingCallers::Caller>(
        callers, "k", binding, WaitingCallers::wakings(), [](Waking, std::chrono::nanoseconds) {},
        std::move(ask), timer);
  };
  const auto passive = come(nullptr);
  EXPECT_EQ(timer->timers(), 0U);
  int asked = 0;
  auto first = come([&] { return ++asked < 3; });
  timer->pass(2 * kPauseForUnits);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(timer->timers(), 1U);
  timer->pass(kPauseForUnits);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(timer->timers(), 0U);
  const auto second = come([&] { return ++asked != 0; });
  timer->pass(kPauseForUnits);
  EXPECT_EQ(asked, 5);
}

// Resets of one key may overlap.
TEST(WaitingCallers, RememberTheLastResetThatBegan) {
  WaitingCallers callers;
  const auto first = callers.begin_reset("k");
  const auto second = callers.begin_reset("k");
  callers.wake("k", Waking::kAskAgain, {}, second);
  callers.wake("k", Waking::kAskAgain, {}, first);
  EXPECT_TRUE(callers.was_reset("k", first));
  EXPECT_FALSE(callers.was_reset("k", second));
  const LimitBinding binding(std::make_shared<ScriptedStore>(), Limit("token_bucket 1/1s"),
                             LimitBinding::Kind::kUnits, &WaitQueues::of);
  const auto is_woken = [&](std::uint64_t since) {
    bool woken = false;
    const WaitingCallers::Caller late(callers, "k", binding, since,
                                      [&](Waking, std::chrono::nanoseconds) { woken = true; });
    return woken;
  };
  EXPECT_TRUE(is_woken(first)) << "after its answer, the event is not missed";
  EXPECT_FALSE(is_woken(second));
}

}  // namespace
}  // namespace sluice
