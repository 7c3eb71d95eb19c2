#include <gmock/gmock.h>

#include <future>
#include <utility>

#include "limiter/later_under_test.h"
#include "limiter/timekeeper.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;
using testing::ElementsAre;

class ReservationLaterTest : public LaterUnderTest {};

TEST_F(ReservationLaterTest, AReservationArrivesWithItsAnswer) {
  inner_->late = true;
  const auto store = std::make_shared<GuardedStore>(inner_, GuardOptions{});
  Limiter other(store, Limit("token_bucket 10/1w", "budget"));
  {
    Limiter limiter(store, Limit("token_bucket 10/1w", "budget"));
    limiter.async_reserve(std::string("k"), 10, kForever, keep_it());
    limiter.async_reserve("k", 5, nanoseconds(1), keep_it());
    limiter.async_reserve("k", 5, kForever, keep_it());
  }
  EXPECT_TRUE(told_.empty());
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 3U);
  EXPECT_TRUE(told_[0].decision.allowed);
  EXPECT_FALSE(told_[1].decision.allowed) << "it is later than its patience";
  EXPECT_GT(told_[2].decision.delay, hours(24 * 3));
  EXPECT_TRUE(reserved_);
  EXPECT_GT(reserved_.delay(), hours(24 * 3));
  reserved_.async_cancel(tell_done());
  EXPECT_EQ(reserved_.delay(), nanoseconds(0)) << "there is nothing to wait for";
  EXPECT_FALSE(reserved_.wait());
  EXPECT_EQ(told_.size(), 3U);
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 4U);
  EXPECT_EQ(last_sentence(), "no error");
  other.async_peek("k", tell());
  inner_->answer_all();
  EXPECT_LE(last().decision.reset_after, hours(24 * 7));
}

TEST_F(ReservationLaterTest, AReservationIsSettledOnce) {
  Limiter limiter = make_limiter();
  Reservation reservation = limiter.reserve("k", 6);
  inner_->late = true;
  reservation.async_commit(-1, tell());
  EXPECT_EQ(last_sentence(), "what it cost is at least 0, not -1");
  reservation.async_commit(2, tell());
  reservation.async_cancel(tell_done());
  reservation.async_commit(0, tell());
  ASSERT_EQ(told_.size(), 3U) << "what is settled is told at once";
  EXPECT_EQ(last().decision, reservation.decision());
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 4U);
  EXPECT_EQ(last().decision.remaining, 8);
  inner_->asked.clear();
  reservation = Reservation();
  reservation.async_cancel(tell_done());
  reservation.async_commit(3, tell());
  EXPECT_FALSE(last().decision.allowed);
  EXPECT_EQ(told_.size(), 6U);
}

TEST_F(ReservationLaterTest, AReservationMayGoBeforeItIsSettled) {
  inner_->late = true;
  const auto store = std::make_shared<GuardedStore>(inner_, GuardOptions{});
  {
    Limiter limiter(store, Limit("sliding_log 10/1w", "limit"));
    limiter.async_reserve("a key that is longer than a string without memory", 3, kForever,
                          keep_it());
  }
  inner_->answer_all();
  std::exchange(reserved_, {}).async_commit(7, tell());
  inner_->asked.clear();
  inner_->answer_all();
  EXPECT_EQ(last().decision.remaining, 3);
  EXPECT_THAT(inner_->asked, ElementsAre(Asked{"a key that is longer than a string without memory",
                                               Operation::kCharge, 4, kStoreTime}));
  EXPECT_EQ(store.use_count(), 1);
}

TEST_F(ReservationLaterTest, AReservationIsGivenBackToWhoGaveIt) {
  inner_->late = true;
  Limiter limiter = make_limiter();
  inner_->lose_all();
  limiter.async_reserve("k", 3, kForever, keep_it());
  inner_->answer_all();
  EXPECT_EQ(reserved_.decision().source, Source::kLocal);
  inner_->asked.clear();
  reserved_.async_cancel(tell_done());
  inner_->answer_all();
  EXPECT_THAT(inner_->asked, ElementsAre());
  EXPECT_EQ(last_sentence(), "no error");
}

/// Whoever waits for a window learns that it may have what was given back, once it has been.
class WakingLaterTest : public LaterUnderTest {
 protected:
  WakingLaterTest() {
    limiter_.acquire("k");
    limiter_.async_acquire("k", 1, kForever,
                           [this](const Decision& decision, const std::exception_ptr&) {
                             granted_.set_value(decision.allowed);
                           });
    pass_the_keeper();
    inner_->late = true;
  }

  /// Nothing was granted before the answer; it is after it.
  void expect_granted_by_the_answer() {
    auto granted = granted_.get_future();
    pass_the_keeper();
    EXPECT_EQ(granted.wait_for(nanoseconds(0)), std::future_status::timeout);
    inner_->late = false;  // For who is woken.
    inner_->answer_all();
    ASSERT_EQ(granted.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    EXPECT_TRUE(granted.get());
    EXPECT_EQ(last_sentence(), "no error");
  }

  /// What was to be done on the timekeeper's thread is done.
  static void pass_the_keeper() {
    std::promise<void> passed;
    Timekeeper::shared()->post([&] { passed.set_value(); });
    passed.get_future().get();
  }

  Limiter limiter_{inner_, Limit("fixed_window 3/1h anchor=first", "limit")};
  Reservation two_ = limiter_.reserve("k", 2);
  std::promise<bool> granted_;
};

TEST_F(WakingLaterTest, ByARefund) {
  limiter_.async_refund(std::string("k"), 1, tell());
  expect_granted_by_the_answer();
}

TEST_F(WakingLaterTest, ByAReset) {
  limiter_.async_reset(std::string("k"), tell_done());
  expect_granted_by_the_answer();
}

TEST_F(WakingLaterTest, ByAReservationThatIsSettledForLess) {
  std::exchange(two_, {}).async_commit(1, tell());
  expect_granted_by_the_answer();
}

TEST_F(WakingLaterTest, ByAReservationThatIsCancelled) {
  std::exchange(two_, {}).async_cancel(tell_done());
  expect_granted_by_the_answer();
}

}  // namespace
}  // namespace sluice
