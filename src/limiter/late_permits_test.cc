// Permits that the store gives, or may give, after somebody else has answered.

#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <vector>

#include "limiter/child_under_test.h"
#include "limiter/give_back.h"
#include "limiter/guarded_store.h"
#include "limiter/line_under_test.h"
#include "sluice/permit.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;

bool is_take(const AnsweringStore::Asked& asked) {
  return asked.operation == Operation::kTake;
}

/// Whether that is how what was asked with `take` is given back, to the store alone.
bool disowns(const AnsweringStore::Asked& asked, const AnsweringStore::Asked& take) {
  return asked.operation == Operation::kRelease && asked.giver == Source::kUnanswered &&
         asked.permit == take.permit;
}

/// In a line of those who wait.
class LatePermitsTest : public LineUnderTest {
 protected:
  void SetUp() override {
    use_permits();
    store_->says = [this](const Request& request) {
      return request.operation == Operation::kTake ? answer_ : Decision{.retry_after = kNever};
    };
  }

  Decision answer_{.source = Source::kLocal, .retry_after = seconds(60)};
};

TEST_F(LatePermitsTest, AreGivenBackAndAskedForUnderAnotherName) {
  store_->late = true;
  come();
  keeper_->run();
  store_->answer();
  keeper_->run();
  ASSERT_EQ(store_->asked.size(), 2U) << "nobody is woken to ask at once";
  EXPECT_TRUE(disowns(store_->asked[1], store_->asked[0]));
  answer_ = {.source = Source::kStore, .retry_after = seconds(60)};
  store_->answer();
  keeper_->pass(milliseconds(5));
  ASSERT_EQ(store_->asked.size(), 3U);
  EXPECT_TRUE(is_take(store_->asked[2]));
  EXPECT_NE(store_->asked[2].permit, store_->asked[0].permit);
  store_->answer();
  keeper_->run();
  answer_ = {.allowed = true};
  lines_.released("k");
  keeper_->run();
  ASSERT_EQ(store_->asked.size(), 4U) << "what the store denied, it did not give";
  EXPECT_EQ(store_->asked[3].permit, store_->asked[2].permit);
  store_->answer();
  keeper_->run();
  ASSERT_THAT(granted_, ElementsAre(1));
  EXPECT_EQ(outcomes_[1].permit, store_->asked[3].permit);
}

TEST_F(LatePermitsTest, AreGivenBackWhereSomebodyElseHasGivenThem) {
  answer_ = {.allowed = true, .source = Source::kPolicy};
  come();
  keeper_->run();
  ASSERT_THAT(granted_, ElementsAre(1));
  ASSERT_EQ(store_->asked.size(), 2U);
  EXPECT_TRUE(disowns(store_->asked[1], store_->asked[0]));
}

TEST_F(LatePermitsTest, HaveAnotherNameForWhoAsksBeforeItStandsInLine) {
  Wish wish{.slot = slot_, .key = "k", .permit = 1};
  std::stop_source stop;
  go_for(lines_, wish, false, stop.get_token(), [](const Outcome&) {});
  keeper_->run();
  stop.request_stop();
  keeper_->run();
  ASSERT_EQ(store_->asked.size(), 4U);
  EXPECT_TRUE(disowns(store_->asked[1], store_->asked[0]));
  EXPECT_TRUE(is_take(store_->asked[2]));
  EXPECT_NE(store_->asked[2].permit, store_->asked[0].permit);
  EXPECT_TRUE(disowns(store_->asked[3], store_->asked[2]));
}

TEST_F(LatePermitsTest, WakeNobodyWhenTheyAreGivenBack) {
  const auto keeper = Timekeeper::shared();
  std::stop_source stop;
  std::promise<void> ended;
  slot_->bound().space->companion<WaitingLines>().wait({.slot = slot_, .key = "k", .permit = 1},
                                                       std::nullopt, stop.get_token(),
                                                       [&](const Outcome&) { ended.set_value(); });
  for (int i = 0; i < 3; ++i) {
    std::promise<void> done;
    keeper->post([&] { done.set_value(); });
    done.get_future().wait();
  }
  EXPECT_EQ(store_->asked.size(), 2U) << "the first in line would ask, and give back, without end";
  stop.request_stop();
  ended.get_future().wait();
}

/// The release of one.
class LateReleaseTest : public LineUnderTest {
 protected:
  void SetUp() override {
    use_permits();
    store_->late = true;
    store_->says = [](const Request&) { return Decision{.source = Source::kUnanswered}; };
  }

  void give_back() {
    Request request = slot_->bound().request("k");
    request.operation = Operation::kRelease;
    request.permit = 7;
    request.giver = Source::kUnanswered;
    sluice::give_back(slot_, slot_->bound(), request, keeper_);
  }
  /// Of so many limits, as many as are tried again of one.
  void give_back_of(std::size_t limits) {
    for (; limits > 0; --limits) {
      use_permits();
      slots_.push_back(slot_);
      for (std::size_t i = 0; i < kMostTriedAgainOfOne; ++i) give_back();
    }
    answer_all();
  }
  void answer_all() {
    for (std::size_t left = store_->under_way(); left > 0; --left) store_->answer();
    keeper_->run();
  }
  void answer_all_from_now_on() {
    store_->says = [](const Request&) { return Decision{.retry_after = kNever}; };
    answer_all();
  }

  std::vector<std::shared_ptr<LimitSlot>> slots_;
};

TEST_F(LateReleaseTest, IsTriedAgainUntilTheStoreAnswers) {
  give_back();
  ASSERT_EQ(store_->under_way(), 1U);
  answer_all();
  keeper_->pass(milliseconds(10) - nanoseconds(1));
  EXPECT_EQ(store_->under_way(), 0U);
  keeper_->pass(nanoseconds(1));
  EXPECT_EQ(store_->under_way(), 1U);
  answer_all();
  keeper_->pass(milliseconds(20));
  EXPECT_EQ(store_->under_way(), 1U);
  answer_all_from_now_on();
  keeper_->pass(seconds(60));
  EXPECT_EQ(store_->asked.size(), 3U);
  for (const AnsweringStore::Asked& asked : store_->asked) EXPECT_EQ(asked.permit, 7U);
}

TEST_F(LateReleaseTest, IsTriedUntilALeaseIsOver) {
  give_back();
  answer_all();
  const auto begun = keeper_->now();
  while (keeper_->timers() > 0) {
    keeper_->pass(milliseconds(10));
    answer_all();
  }
  EXPECT_GE(keeper_->now() - begun, seconds(58));
  EXPECT_LE(keeper_->now() - begun, seconds(60));
  EXPECT_LE(store_->asked.size(), 70U);
}

TEST_F(LateReleaseTest, IsNotTriedOnceTheLimiterHasGone) {
  give_back();
  answer_all();
  const std::weak_ptr<const LimitSlot> slot = slot_;
  slot_.reset();
  EXPECT_TRUE(slot.expired());
  keeper_->pass(seconds(1));
  EXPECT_EQ(store_->asked.size(), 1U);
  EXPECT_EQ(keeper_->timers(), 0U);
}

TEST_F(LateReleaseTest, HasABound) {
  give_back_of(11);
  EXPECT_EQ(keeper_->timers(), kMostTriedAgain);
  keeper_->pass(milliseconds(10));
  answer_all_from_now_on();
  EXPECT_EQ(keeper_->timers(), 0U);
  give_back();
  EXPECT_EQ(store_->under_way(), 1U) << "there are places again";
}

// Who waits under the policy to deny leaves one behind with each try.
TEST_F(LateReleaseTest, LeavesPlacesToOtherLimits) {
  for (std::size_t i = 0; i <= 2 * kMostTriedAgainOfOne; ++i) give_back();
  answer_all();
  EXPECT_EQ(keeper_->timers(), kMostTriedAgainOfOne);
  const auto first = slot_;
  use_permits();
  give_back();
  answer_all();
  EXPECT_EQ(keeper_->timers(), kMostTriedAgainOfOne + 1);
}

TEST_F(LateReleaseTest, OfAParentTakesNoPlaceInItsChild) {
  give_back_of(10);
  const std::size_t parents = keeper_->timers();
  EXPECT_EQ(in_a_child([&] {
              give_back_of(11);
              return keeper_->timers() == parents + kMostTriedAgain;
            }),
            0);
}

/// A limiter over a guarded store that is asked, does it perhaps, and does not answer.
class LatePermitsOfALimiterTest : public testing::Test {
 protected:
  Permit acquire(OnFailure policy) {
    GuardOptions options;
    options.on_failure = policy;
    store_->asked.clear();
    ConcurrencyLimiter jobs(std::make_shared<GuardedStore>(store_, options),
                            Limit("concurrency 4 lease=60s", "jobs"));
    return jobs.try_acquire("k");
  }

  void SetUp() override {
    store_->says = [](const Request&) { return Decision{.source = Source::kUnanswered}; };
  }

  std::shared_ptr<AnsweringStore> store_ = std::make_shared<AnsweringStore>();
};

TEST_F(LatePermitsOfALimiterTest, AreGivenBackWhateverThePolicy) {
  for (const OnFailure policy : {OnFailure::kLocal, OnFailure::kAllow, OnFailure::kDeny}) {
    Permit permit = acquire(policy);
    EXPECT_EQ(permit.held(), policy != OnFailure::kDeny);
    ASSERT_EQ(store_->asked.size(), 2U);
    EXPECT_TRUE(disowns(store_->asked[1], store_->asked[0]));
    permit.release();
    EXPECT_EQ(store_->asked.size(), 2U) << "what is held is not the store's";
  }
  EXPECT_THROW(acquire(OnFailure::kRaise), StoreError);
  ASSERT_EQ(store_->asked.size(), 2U);
  EXPECT_TRUE(disowns(store_->asked[1], store_->asked[0]));
}

TEST_F(LatePermitsOfALimiterTest, AreNotWhereTheStoreHasAnswered) {
  store_->says = [](const Request&) { return Decision{.retry_after = seconds(1)}; };
  EXPECT_FALSE(acquire(OnFailure::kLocal));
  EXPECT_EQ(store_->asked.size(), 1U);
}

}  // namespace
}  // namespace sluice
