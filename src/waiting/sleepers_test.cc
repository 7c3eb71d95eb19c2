#include "waiting/sleepers.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

TEST(Sleepers, RememberTheResetsOfManyKeys) {
  Sleepers sleepers;
  const auto before = Sleepers::wakings();
  EXPECT_FALSE(sleepers.was_reset("k", before));
  int last = 0;
  const auto reset = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sleepers.begin_reset(std::to_string(++last));
  };
  sleepers.begin_reset("k");
  sleepers.wake("blocked", Waking::kBlocked);
  const auto since = Sleepers::wakings();
  reset(Sleepers::kMostResets);
  EXPECT_TRUE(sleepers.was_reset("k", before));
  EXPECT_FALSE(sleepers.was_reset("k", since));
  EXPECT_FALSE(sleepers.was_reset("blocked", before));
  EXPECT_FALSE(sleepers.was_reset("other", before));
  reset(Sleepers::kMostResets - 1);
  EXPECT_TRUE(sleepers.was_reset("k", before)) << "so many were reset twice";
  EXPECT_FALSE(sleepers.was_reset("other", before));
  const auto late = Sleepers::wakings();
  reset(1);
  EXPECT_TRUE(sleepers.was_reset("other", before)) << "it does not know";
  EXPECT_FALSE(sleepers.was_reset("other", late));
  reset(Sleepers::kMostResets - 1);
  EXPECT_FALSE(sleepers.was_reset("other", late));
  const auto since_all = Sleepers::wakings();
  for (int i = 0; i < 3; ++i) {
    last -= static_cast<int>(Sleepers::kMostResets);
    reset(Sleepers::kMostResets);
  }
  EXPECT_FALSE(sleepers.was_reset("other", since_all)) << "they are the same keys again";
}

// Resets of one key may overlap.
TEST(Sleepers, RememberTheLastResetThatBegan) {
  Sleepers sleepers;
  const auto first = sleepers.begin_reset("k");
  const auto second = sleepers.begin_reset("k");
  sleepers.wake("k", Waking::kReset, {}, second);
  sleepers.wake("k", Waking::kReset, {}, first);
  EXPECT_TRUE(sleepers.was_reset("k", first));
  EXPECT_FALSE(sleepers.was_reset("k", second));
}

}  // namespace
}  // namespace sluice
