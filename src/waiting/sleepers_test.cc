#include "waiting/sleepers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "testing/scripted_store.h"
#include "waiting/limit_binding.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A caller that waits for the key "k", and what wakes it.
class SleepersTest : public testing::Test {
 protected:
  /// The caller asked the store when `since` events had been counted, and begins to wait now.
  std::unique_ptr<Sleepers::Sleeper> wait(std::uint64_t since) {
    return std::make_unique<Sleepers::Sleeper>(sleepers_, "k", binding_, since,
                                               [this](Waking why) { woken_.push_back(why); });
  }

  std::shared_ptr<ScriptedStore> store_ = std::make_shared<ScriptedStore>();
  LimitBinding binding_{store_, Limit("token_bucket 1/1h"), LimitBinding::Kind::kUnits};
  LimitBinding other_binding_{store_, Limit("token_bucket 1/1h"), LimitBinding::Kind::kUnits};
  Sleepers sleepers_;
  std::vector<Waking> woken_;
};

TEST_F(SleepersTest, AreWokenByWhatHappensToTheirKeyOrLimit) {
  const auto sleeper = wait(Sleepers::wakings());
  sleepers_.wake("other", Waking::kBlocked);
  sleepers_.wake_all(other_binding_, Waking::kReplaced);
  EXPECT_THAT(woken_, IsEmpty());
  sleepers_.wake("k", Waking::kBlocked);
  sleepers_.wake_all(binding_, Waking::kReplaced);
  EXPECT_THAT(woken_, ElementsAre(Waking::kBlocked, Waking::kReplaced));
  EXPECT_EQ(sleepers_.size(), 1U);
}

TEST_F(SleepersTest, AreToldTheFirstEventSinceTheyAsked) {
  sleepers_.wake("k", Waking::kReset);
  const std::uint64_t since = Sleepers::wakings();
  sleepers_.wake("other", Waking::kReset);
  sleepers_.wake("k", Waking::kBlocked);
  sleepers_.wake_all(binding_, Waking::kReplaced);
  const auto sleeper = wait(since);
  EXPECT_THAT(woken_, ElementsAre(Waking::kBlocked));
}

TEST_F(SleepersTest, ThatAskedDuringAResetAreNotWokenByIt) {
  const std::uint64_t before = Sleepers::wakings();
  const std::uint64_t begun = Sleepers::begin_event();
  const std::uint64_t during = Sleepers::wakings();
  const auto early = wait(during);
  sleepers_.wake("k", Waking::kReset, begun);
  const auto late = wait(during);
  EXPECT_THAT(woken_, IsEmpty());
  const auto asked_before = wait(before);
  EXPECT_THAT(woken_, ElementsAre(Waking::kReset));
}

TEST_F(SleepersTest, AskAgainIfEventsWereDroppedSinceTheyAsked) {
  const std::uint64_t before = Sleepers::wakings();
  const std::uint64_t begun = Sleepers::begin_event();
  const std::uint64_t during = Sleepers::wakings();
  sleepers_.wake("k", Waking::kReset, begun);
  for (int i = 0; i < 64; ++i) sleepers_.wake("other", Waking::kBlocked);
  const auto asked_during = wait(during);
  EXPECT_THAT(woken_, IsEmpty()) << "only the reset is dropped, which it need not know";
  const auto asked_before = wait(before);
  EXPECT_THAT(woken_, ElementsAre(Waking::kReplaced));
}

}  // namespace
}  // namespace sluice
