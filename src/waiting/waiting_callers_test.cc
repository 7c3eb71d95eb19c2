#include "waiting/waiting_callers.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "testing/manual_timer_queue.h"
#include "testing/scripted_store.h"

namespace sluice {
namespace {

TEST(WaitingCallers, RememberTheResetsOfManyKeys) {
  WaitingCallers callers;
  const auto before = WaitingCallers::wakings();
  EXPECT_FALSE(callers.was_reset("k", before));
  int last = 0;
  const auto reset = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) callers.begin_reset(std::to_string(++last));
  };
  callers.begin_reset("k");
  callers.wake("blocked", Waking::kBlocked);
  const auto since = WaitingCallers::wakings();
  reset(WaitingCallers::kMostResets);
  EXPECT_TRUE(callers.was_reset("k", before));
  EXPECT_FALSE(callers.was_reset("k", since));
  EXPECT_FALSE(callers.was_reset("blocked", before));
  EXPECT_FALSE(callers.was_reset("other", before));
  reset(WaitingCallers::kMostResets - 1);
  EXPECT_TRUE(callers.was_reset("k", before)) << "so many were reset twice";
  EXPECT_FALSE(callers.was_reset("other", before));
  const auto late = WaitingCallers::wakings();
  reset(1);
  EXPECT_TRUE(callers.was_reset("other", before)) << "it does not know";
  EXPECT_FALSE(callers.was_reset("other", late));
  reset(WaitingCallers::kMostResets - 1);
  EXPECT_FALSE(callers.was_reset("other", late));
  const auto since_all = WaitingCallers::wakings();
  for (int i = 0; i < 3; ++i) {
    last -= static_cast<int>(WaitingCallers::kMostResets);
    reset(WaitingCallers::kMostResets);
  }
  EXPECT_FALSE(callers.was_reset("other", since_all)) << "they are the same keys again";
}

TEST(WaitingCallers, SetATimerOnlyForOneThatMayAsk) {
  const auto timer = std::make_shared<ManualTimerQueue>();
  const LimitBinding binding(std::make_shared<ScriptedStore>(), Limit("token_bucket 1/1s"),
                             LimitBinding::Kind::kUnits);
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
}

}  // namespace
}  // namespace sluice
