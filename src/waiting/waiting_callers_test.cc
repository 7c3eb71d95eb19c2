#include "waiting/waiting_callers.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "testing/manual_timer_queue.h"

namespace sluice {
namespace {

TEST(WaitingCallers, RememberTheLastResets) {
  WaitingCallers callers;
  const WaitingCallers of_another_limit;
  const auto before = WaitingCallers::wakings();
  callers.begin_reset("k");
  callers.wake("blocked", Waking::kBlocked);
  const auto since = WaitingCallers::wakings();
  EXPECT_TRUE(callers.was_reset("k", before));
  EXPECT_FALSE(callers.was_reset("k", since));
  EXPECT_FALSE(callers.was_reset("blocked", before));
  EXPECT_FALSE(of_another_limit.was_reset("k", before));
  for (std::size_t i = 0; i <= WaitingCallers::kMostKeys; ++i) {
    callers.begin_reset(std::to_string(i));
  }
  EXPECT_TRUE(callers.was_reset("other", since)) << "it is not known any more";
  EXPECT_FALSE(callers.was_reset("0", WaitingCallers::wakings()));
}

TEST(WaitingCallers, SetATimerOnlyForOneThatMayAsk) {
  const auto timer = std::make_shared<ManualTimerQueue>();
  WaitingCallers callers;
  const auto come = [&](WaitingCallers::Ask ask) {
    return std::make_unique<WaitingCallers::Caller>(
        callers, "k", WaitingCallers::wakings(), false, [](Waking, const Decision&) {},
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
  callers.wake("k", Waking::kReset, {}, second);
  callers.wake("k", Waking::kReset, {}, first);
  EXPECT_TRUE(callers.was_reset("k", first));
  EXPECT_FALSE(callers.was_reset("k", second));
  const auto is_woken = [&](std::uint64_t since) {
    bool woken = false;
    const WaitingCallers::Caller late(callers, "k", since, false,
                                      [&](Waking, const Decision&) { woken = true; });
    return woken;
  };
  EXPECT_TRUE(is_woken(first)) << "after its answer, the event is not missed";
  EXPECT_FALSE(is_woken(second));
}

}  // namespace
}  // namespace sluice
