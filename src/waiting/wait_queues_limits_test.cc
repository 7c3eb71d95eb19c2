// Queues of windows, and of limits of one name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "testing/wait_queues_fixture.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using WaitQueuesTest = WaitQueuesFixture;

TEST_F(WaitQueuesTest, OfAWindowTheFirstAsksExactlyWhenItMayBeGranted) {
  use_window();
  answer_later();
  retry_after_ = milliseconds(800);
  come({.denied = Decision{.retry_after = milliseconds(800)}});
  come({.cost = 3});
  timer_->run();
  ASSERT_EQ(store_->pending(), 1U) << "it may have been returned since it was denied";
  store_->answer();
  timer_->pass(milliseconds(800) - nanoseconds(1));
  EXPECT_EQ(store_->pending(), 0U);
  timer_->pass(nanoseconds(1));
  ASSERT_EQ(store_->pending(), 1U);
  EXPECT_EQ(store_->asked[1].patience_ns, nanoseconds(milliseconds(99'200)).count())
      << "of its patience, that much is left";
  grant(true);
  answer();
  EXPECT_EQ(store_->asked[2].cost, 3);
  answer();
  EXPECT_THAT(granted_, ElementsAre(1, 2));
}

// Another process may have returned units. With the round trip it is less than a second.
TEST_F(WaitQueuesTest, OfAWindowThatOthersShareTheFirstAsksWithinASecond) {
  use_window();
  retry_after_ = seconds(20);
  std::stop_source stop;
  come({.stop = stop.get_token()});
  timer_->pass(seconds(20) - nanoseconds(1));
  EXPECT_EQ(store_->asked.size(), 1U) << "no other process has units of this store";
  stop.request_stop();
  timer_->run();
  answer_later();
  come({.directly = true});
  timer_->run();
  answer();
  EXPECT_EQ(store_->asked[1].most_denial_age_ns, kMaxInt64) << "it has come just now";
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(store_->pending(), 1U);
    EXPECT_LE(store_->asked.back().most_denial_age_ns, nanoseconds(milliseconds(150)).count());
    timer_->pass(milliseconds(100));
    answer();
    timer_->pass(milliseconds(750) - nanoseconds(1));
    EXPECT_EQ(store_->pending(), 0U);
    timer_->pass(nanoseconds(1));
  }
  grant(true);
  answer_all();
  EXPECT_THAT(granted_, ElementsAre(2));
}

TEST_F(WaitQueuesTest, OfAWindowNoCallerWaitsInVain) {
  use_window();
  answer_later();
  retry_after_ = seconds(20);
  const auto come_directly = [&](nanoseconds timeout) {
    come({.timeout = timeout, .directly = true});
    timer_->run();
    answer_all();
  };
  come_directly(seconds(20));
  answer_all();
  EXPECT_THAT(denied_, IsEmpty()) << "it may be granted when its timeout ends";
  come({.timeout = seconds(20) - nanoseconds(1)});
  timer_->run();
  EXPECT_THAT(denied_, ElementsAre(2)) << "it cannot be granted before the one that waits already";
  grant(true);
  timer_->pass(seconds(20));
  answer_all();
  EXPECT_THAT(granted_, ElementsAre(1));
  grant(false);
  come_directly(seconds(20) - nanoseconds(1));
  EXPECT_THAT(denied_, ElementsAre(2, 3));
  EXPECT_EQ(outcomes_[3].decision.retry_after, seconds(20));
}

// Several claims: the second comes from the queue of another one, with the denial that it had
// there.
TEST_F(WaitQueuesTest, OfAWindowTheDenialOfTheFirstIsThatOfTheQueue) {
  use("sliding_log 10/60s", LimitBinding::Kind::kUnits);
  retry_after_ = seconds(55);
  std::stop_source stop;
  come({.cost = 10, .stop = stop.get_token()});
  timer_->run();
  come({.denied = Decision{.retry_after = seconds(5)}});
  come({.timeout = seconds(8)});
  timer_->run();
  EXPECT_THAT(denied_, ElementsAre(3)) << "it cannot be granted before the first";
  timer_->pass(seconds(3));
  stop.request_stop();
  timer_->run();
  EXPECT_EQ(outcomes_[1].decision.retry_after, seconds(52));
}

TEST_F(WaitQueuesTest, OfAWindowTheNextMayWantLess) {
  use_window();
  std::stop_source stop;
  store_->says = [](const Request& request) {
    return request.cost > 1 ? Decision{.retry_after = seconds(20)} : Decision{.allowed = true};
  };
  come({.cost = 3, .stop = stop.get_token()});
  come();
  timer_->pass(seconds(1));
  EXPECT_THAT(granted_, IsEmpty());
  stop.request_stop();
  timer_->run();
  EXPECT_THAT(granted_, ElementsAre(2));
}

TEST_F(WaitQueuesTest, ACostThatCanNeverBeAdmittedIsAskedForAtOnce) {
  for (const bool borrows : {false, true}) {
    binding_ = nullptr;
    outcomes_.clear();
    use(borrows ? "fixed_window 20/1m & token_bucket 5/1m borrow=yes" : "fixed_window 5/1m",
        LimitBinding::Kind::kUnits);
    std::stop_source stop;
    come({.stop = stop.get_token()});
    timer_->run();
    asked();
    come({.cost = 6, .stop = stop.get_token(), .directly = true});
    timer_->run();
    EXPECT_EQ(asked().size(), borrows ? 0U : 1U);
    stop.request_stop();
    timer_->run();
  }
}

TEST_F(WaitQueuesTest, ADenialForeverIsForItsCostOnly) {
  use_window();
  answer_later();
  retry_after_ = kNever;
  std::stop_source stop;
  come({.cost = 11});
  come();
  come({.stop = stop.get_token()});
  timer_->run();
  answer();
  EXPECT_EQ(outcomes_[1].decision.retry_after, kNever);
  stop.request_stop();
  timer_->run();
  ASSERT_THAT(denied_, ElementsAre(1, 3));
  EXPECT_EQ(outcomes_[3].decision.retry_after, kSoon) << "the store was not asked about so few";
}

// Limiters of one name may have limits of different numbers.
TEST_F(WaitQueuesTest, CallersOfAnotherLimitWaitInAQueueOfTheirOwn) {
  use_window();
  retry_after_ = seconds(60);
  come();
  come();
  use("fixed_window 9/1m", LimitBinding::Kind::kUnits);
  retry_after_ = seconds(30);
  come({.timeout = seconds(30), .directly = true});
  timer_->run();
  EXPECT_EQ(store_->asked.size(), 3U) << "it asks directly, and when it joins its empty queue";
  EXPECT_THAT(denied_, IsEmpty()) << "it may be granted before those of the other limit";
  come({.directly = true});
  timer_->run();
  EXPECT_EQ(store_->asked.size(), 3U) << "it waits behind that of its limit";
  grant(true);
  release();
  ASSERT_EQ(granted_.size(), 4U);
  EXPECT_THAT(std::vector(granted_.begin(), granted_.begin() + 2), UnorderedElementsAre(1, 3))
      << "the first of each asks";
}

TEST_F(WaitQueuesTest, ABlockDeniesTheCallersOfAllLimits) {
  use_permits();
  come();
  use("concurrency 2 lease=60s", LimitBinding::Kind::kPermits);
  come();
  timer_->run();
  queues_->blocked("k", {.retry_after = seconds(1)});
  timer_->run();
  EXPECT_THAT(denied_, UnorderedElementsAre(1, 2));
  EXPECT_EQ(queues_->waiting(), 0U);
}

/// Two limiters of one name and numbers, one of which gets another limit.
class ReplacedLimitTest : public WaitQueuesTest {
 protected:
  void use_two_limiters() {
    use_permits();
    kept_ = binding_;
    use_permits();
  }
  int come_to_the_kept() {
    const auto binding = std::exchange(binding_, kept_);
    const int number = come();
    binding_ = binding;
    return number;
  }
  void replace() {
    binding_->set_limit(Limit("concurrency 2 lease=60s", "limit"));
    queues_->limit_replaced();
    timer_->run();
  }

  std::shared_ptr<LimitBinding> kept_;
};

TEST_F(ReplacedLimitTest, ItsCallersWaitForTheNewOneInTheirOrder) {
  use_two_limiters();
  come_to_the_kept();
  come();
  come_to_the_kept();
  come();
  timer_->run();
  EXPECT_THAT(asked(), ElementsAre(1));
  replace();
  EXPECT_THAT(asked(), ElementsAre(1, 2)) << "the first of each queue";
  EXPECT_FALSE(queues_->is_empty("k", kept_->bound().limit));
  EXPECT_FALSE(queues_->is_empty("k", binding_->bound().limit));
  grant(true);
  release();
  EXPECT_THAT(granted_, UnorderedElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(std::ranges::find(granted_, 2) < std::ranges::find(granted_, 4));
  EXPECT_EQ(queues_->waiting(), 0U);
}

TEST_F(ReplacedLimitTest, NoCallerOvertakesOneThatAsksMeanwhile) {
  for (const bool is_granted : {false, true}) {
    SCOPED_TRACE(is_granted);
    answer_later();
    use_two_limiters();
    grant(is_granted);
    const int first = come();
    const int second = come();
    const int of_the_kept = come_to_the_kept();
    const int last = come();
    timer_->run();
    replace();
    granted_.clear();
    answer();
    grant(true);
    answer_all();
    while (store_->pending() > 0) answer();
    std::erase(granted_, of_the_kept);
    EXPECT_THAT(granted_, ElementsAre(first, second, last));
    EXPECT_EQ(queues_->waiting(), 0U);
  }
}

TEST_F(ReplacedLimitTest, ACallerThatAsksMeanwhileGoesWhenItIsAnswered) {
  use_two_limiters();
  answer_later();
  come();
  come_to_the_kept();
  timer_->run();
  replace();
  EXPECT_EQ(store_->pending(), 1U);
  retry_after_ = kNever;  // Under the former limit.
  answer();
  EXPECT_THAT(denied_, IsEmpty());
  EXPECT_THAT(asked(), ElementsAre(1, 2, 1)) << "the next one of its queue, and it in the new one";
  grant(true);
  answer_all();
  EXPECT_THAT(granted_, ElementsAre(2, 1));
}

}  // namespace
}  // namespace sluice
