#include "limiter/waiting_line.h"

#include <gmock/gmock.h>

#include <vector>

#include "limiter/line_under_test.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;

using WaitingLineTest = LineUnderTest;

TEST_F(WaitingLineTest, NobodyWaitsAtFirst) {
  EXPECT_TRUE(lines_.nobody_waits("k"));
  use_permits();
  come();
  EXPECT_FALSE(lines_.nobody_waits("k"));
  EXPECT_TRUE(lines_.nobody_waits("other"));
  grant(true);
  keeper_->run();
  EXPECT_TRUE(lines_.nobody_waits("k"));
  EXPECT_THAT(granted_, ElementsAre(1));
}

TEST_F(WaitingLineTest, OnlyTheFirstAsks) {
  use_permits();
  for (int i = 0; i < 3; ++i) come();
  keeper_->run();
  EXPECT_THAT(asked(), ElementsAre(1));
  keeper_->pass(seconds(59));
  EXPECT_THAT(asked(), IsEmpty()) << "nobody else has permits of a store of this process";
}

TEST_F(WaitingLineTest, AReleaseLetsTheFirstAskAtOnce) {
  use_permits();
  for (int i = 0; i < 3; ++i) come();
  keeper_->run();
  asked();
  lines_.released("other");
  keeper_->run();
  EXPECT_THAT(asked(), IsEmpty());
  grant(true);
  store_->says = [count = 0](const Request&) mutable {
    return ++count == 1 ? Decision{.allowed = true} : Decision{.retry_after = seconds(60)};
  };
  lines_.released("k");
  keeper_->run();
  EXPECT_THAT(asked(), ElementsAre(1, 2)) << "the next one asks at once";
  EXPECT_THAT(granted_, ElementsAre(1));
}

TEST_F(WaitingLineTest, ServesInOrder) {
  use_permits();
  for (int i = 0; i < 5; ++i) come();
  keeper_->run();
  grant(true);
  lines_.released("k");
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(WaitingLineTest, KeysHaveLinesOfTheirOwn) {
  use_permits();
  come();
  come({.key = "other"});
  keeper_->run();
  EXPECT_THAT(asked(), ElementsAre(1, 2));
  grant(true);
  lines_.released("other");
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(2));
  lines_.released_all();
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(2, 1));
}

TEST_F(WaitingLineTest, APermitLapsesAtTheLatest) {
  use_permits();
  retry_after_ = seconds(7);
  come();
  keeper_->pass(seconds(7) - nanoseconds(1));
  EXPECT_THAT(asked(), ElementsAre(1));
  grant(true);
  keeper_->pass(nanoseconds(1));
  EXPECT_THAT(granted_, ElementsAre(1));
}

TEST_F(WaitingLineTest, AsksWithGrowingPausesWhatOthersShare) {
  use_permits();
  store_->late = true;
  come();
  keeper_->run();
  std::vector<nanoseconds> pauses;
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(store_->under_way(), 1U);
    store_->answer();
    keeper_->run();
    const auto since = keeper_->now();
    while (store_->under_way() == 0) keeper_->pass(nanoseconds(100'000));
    pauses.push_back(keeper_->now() - since);
  }
  nanoseconds longest = milliseconds(5);
  for (const nanoseconds pause : pauses) {
    EXPECT_THAT(pause, AllOf(Ge(std::max<nanoseconds>(milliseconds(5), longest / 2)),
                             Le(longest + nanoseconds(100'000))));
    longest = std::min<nanoseconds>(WaitingLine::kMostPause, 2 * longest);
  }
  // A release, and they begin anew.
  store_->answer();
  keeper_->run();
  lines_.released("k");
  keeper_->run();
  ASSERT_EQ(store_->under_way(), 1U);
  store_->answer();
  keeper_->run();
  keeper_->pass(milliseconds(5));
  EXPECT_EQ(store_->under_way(), 1U);
}

TEST_F(WaitingLineTest, AsksMoreOftenOnceOthersHaveHadTheirTurn) {
  use_permits();
  store_->late = true;
  store_->tells = true;  // So it says, and never does.
  come();
  keeper_->run();
  const auto came = keeper_->now();
  const auto next_pause = [&] {
    store_->answer();
    keeper_->run();
    const auto since = keeper_->now();
    while (store_->under_way() == 0) keeper_->pass(nanoseconds(100'000));
    return keeper_->now() - since;
  };
  while (keeper_->now() - came < WaitingLine::kPassedOver) next_pause();
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(next_pause(), AllOf(Ge(WaitingLine::kMostPausePassedOver / 2),
                                    Le(WaitingLine::kMostPausePassedOver + milliseconds(1))));
  }
  // Its turn: who comes next is patient again.
  come();
  grant(true);
  store_->answer();
  keeper_->run();
  ASSERT_THAT(granted_, ElementsAre(1));
  grant(false);
  nanoseconds longest{0};
  for (int i = 0; i < 8; ++i) longest = std::max<nanoseconds>(longest, next_pause());
  EXPECT_GT(longest, WaitingLine::kMostPausePassedOver + milliseconds(1));
}

TEST_F(WaitingLineTest, AsksNoLaterThanALeaseEnds) {
  use_permits();
  store_->late = true;
  retry_after_ = milliseconds(2);
  come();
  keeper_->run();
  store_->answer();
  keeper_->run();
  keeper_->pass(milliseconds(2));
  EXPECT_EQ(store_->under_way(), 1U);
}

TEST_F(WaitingLineTest, IsToldOfReleasesElsewhereWhileSomebodyWaits) {
  use_permits();
  store_->late = true;
  store_->tells = true;
  come();
  keeper_->run();
  EXPECT_THAT(store_->watched(), IsEmpty()) << "it may be granted at once";
  store_->answer();
  keeper_->run();
  EXPECT_THAT(store_->watched(), ElementsAre("k"));
  grant(true);
  store_->tell();
  keeper_->run();
  ASSERT_EQ(store_->under_way(), 1U);
  store_->answer();
  keeper_->run();
  EXPECT_THAT(granted_, ElementsAre(1));
  EXPECT_THAT(store_->watched(), IsEmpty());
}

TEST_F(WaitingLineTest, AReleaseWhileItAsksIsNotMissed) {
  use_permits();
  store_->late = true;
  come();
  keeper_->run();
  lines_.released("k");
  keeper_->run();
  EXPECT_EQ(store_->under_way(), 1U) << "one asking at a time";
  store_->answer();
  keeper_->run();
  EXPECT_EQ(store_->under_way(), 1U) << "what was denied may have been asked before the release";
}

TEST_F(WaitingLineTest, WhatCanNeverBeIsDeniedAtOnce) {
  use_permits();
  retry_after_ = kNever;
  come();
  come();
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(1, 2));
  EXPECT_EQ(outcomes_[1].decision.retry_after, kNever);
}

TEST_F(WaitingLineTest, WhoAsksDirectlyDoesNotOvertake) {
  use_permits();
  store_->late = true;
  come({.directly = true});
  come({.directly = true});
  keeper_->run();
  EXPECT_THAT(asked(), ElementsAre(1, 2)) << "nobody waits yet, so they do not wait for each other";
  store_->answer();
  keeper_->run();
  EXPECT_THAT(asked(), ElementsAre(1)) << "denied, it stands in line, and asks once more";
  come({.directly = true});
  keeper_->run();
  EXPECT_THAT(asked(), IsEmpty());
  grant(true);
  while (store_->under_way() > 0) {
    store_->answer();
    keeper_->run();
  }
  EXPECT_THAT(granted_, ElementsAre(2, 1, 3));
}

/// One waits while its process passes permits on until it has had its turn.
class RestingLineTest : public LineUnderTest {
 protected:
  void wait() {
    use_permits();
    store_->late = true;
    store_->tells = true;
    come();
    keeper_->run();
    answer_all();
  }

  void answer_all() {
    while (store_->under_way() > 0) store_->answer();
    keeper_->run();
  }

  void have_a_turn(nanoseconds time) {
    for (int i = 0; i < Turns::kLeastGrants; ++i) {
      lines_.turns().granted("k", keeper_->now());
      keeper_->pass(time / Turns::kLeastGrants);
      answer_all();
      lines_.turns().released("k", keeper_->now());
    }
    grant(true);
    lines_.released("k");
  }

  void expect_rest(nanoseconds rest) {
    keeper_->pass(rest - nanoseconds(1));
    EXPECT_EQ(store_->under_way(), 0U) << "others come first for a moment";
    keeper_->pass(nanoseconds(1));
    EXPECT_EQ(store_->under_way(), 1U);
    answer_all();
    EXPECT_THAT(granted_, ElementsAre(1));
  }
};

TEST_F(RestingLineTest, IsBriefWhereTheStoreTells) {
  wait();
  store_->tell();
  keeper_->run();
  answer_all();
  have_a_turn(milliseconds(100));
  expect_rest(milliseconds(4));
}

TEST_F(RestingLineTest, IsLongWhereTheStoreIsAskedToTellAndDoesNot) {
  wait();
  have_a_turn(milliseconds(100));
  keeper_->run();
  EXPECT_EQ(store_->under_way(), 1U) << "its turn lasts longer";
  grant(false);
  answer_all();
  have_a_turn(milliseconds(1900));
  expect_rest(milliseconds(100));
}

/// Runs at once what is posted, before post() returns, as another thread may.
class HastyTimekeeper final : public Timekeeper {
 public:
  TimePoint now() const override { return TimePoint(std::chrono::hours(1)); }
  void post(Task task) override { task(); }
  Timer at(TimePoint when, Task) override { return {.when = when}; }
  void cancel(const Timer&) override {}
};

TEST_F(WaitingLineTest, WhoAsksIsSeenToWait) {
  use_window();
  WaitingLines lines(std::make_shared<HastyTimekeeper>());
  std::vector<std::size_t> seen;
  store_->says = [&](const Request&) {
    seen.push_back(lines.waiting());
    return Decision{.retry_after = seconds(60)};
  };
  std::stop_source stop;
  lines.wait({.slot = slot_, .key = "k"}, std::nullopt, stop.get_token(), [](const Outcome&) {});
  stop.request_stop();
  EXPECT_THAT(seen, ElementsAre(1)) << "else a release right afterwards would wake nobody";
}

TEST_F(WaitingLineTest, HasABound) {
  use_permits();
  come();
  keeper_->run();
  Options many;
  for (std::size_t i = 1; i < WaitingLines::kMostWaiting; ++i) come(many);
  EXPECT_THAT(denied_, IsEmpty());
  const int last = come();
  keeper_->run();
  EXPECT_THAT(denied_, ElementsAre(last));
  grant(true);
  lines_.released("k");
  keeper_->run();
  EXPECT_EQ(granted_.size(), WaitingLines::kMostWaiting);
  EXPECT_TRUE(lines_.nobody_waits("k"));
}

}  // namespace
}  // namespace sluice
