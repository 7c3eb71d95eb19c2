#include "waiting/waiting_callers.h"

#include <gtest/gtest.h>

#include <string>

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
