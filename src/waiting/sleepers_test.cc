#include "waiting/sleepers.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

TEST(Sleepers, RememberTheResetsOfManyKeys) {
  Sleepers sleepers;
  const auto before = Sleepers::wakings();
  EXPECT_FALSE(sleepers.was_reset("k", before));
  sleepers.wake("k", Waking::kReset);
  sleepers.wake("blocked", Waking::kBlocked);
  const auto since = Sleepers::wakings();
  for (std::size_t i = 1; i < Sleepers::kMostResets; ++i) {
    sleepers.wake(std::to_string(i), Waking::kReset);
  }
  EXPECT_TRUE(sleepers.was_reset("k", before));
  EXPECT_FALSE(sleepers.was_reset("k", since));
  EXPECT_FALSE(sleepers.was_reset("blocked", before));
  EXPECT_FALSE(sleepers.was_reset("other", before));
  sleepers.wake("one more", Waking::kReset);
  const auto last = Sleepers::wakings();
  EXPECT_TRUE(sleepers.was_reset("other", before)) << "it does not know";
  EXPECT_FALSE(sleepers.was_reset("other", last));
}

// Resets that overlap may end in another order than that in which they began.
TEST(Sleepers, RememberTheLastResetThatBegan) {
  Sleepers sleepers;
  const auto first = Sleepers::begin_event();
  const auto second = Sleepers::begin_event();
  sleepers.wake("k", Waking::kReset, second);
  sleepers.wake("k", Waking::kReset, first);
  EXPECT_TRUE(sleepers.was_reset("k", first));
  EXPECT_FALSE(sleepers.was_reset("k", second));
}

}  // namespace
}  // namespace sluice
