// Callers that wait for reserved units of a store that other processes share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/limiter.h"
#include "testing/fallback_fixture.h"
#include "testing/manual_timer_queue.h"
#include "testing/scripted_store.h"
#include "testing/wait_queues_fixture.h"
#include "waiting/wait_queues.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

/// By a clock that the test advances, on a store that answers when told. The numbers are those of
/// the callers, in the order in which they came.
class ReservedUnitsTest : public testing::Test {
 protected:
  /// The bucket is empty.
  void use(const std::string& expression, std::int64_t burst) {
    store_ = std::make_shared<ScriptedStore>();
    store_->clock = kStart;
    store_->answers = ScriptedStore::Answers::kWhenTold;
    limit_ = std::make_unique<Limit>(expression, "limit");
    space_ = store_->open_space(limit_->definition());
    space_->attachment<WaitQueues>(timer_);
    limiter_ = std::make_unique<Limiter>(store_, *limit_);
    limiter_->check("k", burst);
  }

  void come(std::int64_t cost = 1) {
    const auto number = ++last_number_;
    limiter_->async_acquire(
        "k", cost, kForever,
        [this, number](const Decision& decision, const std::exception_ptr&) {
          (decision.allowed ? granted_ : denied_).push_back(number);
          delay_ = decision.delay;
        },
        stop_.get_token());
    timer_->run();
    answer();
  }

  void pass(std::chrono::nanoseconds time) {
    timer_->pass(time);
    store_->clock = *store_->clock + time.count();
  }
  void answer() {
    store_->answer_all();
    timer_->run();
  }
  /// Lets so much time pass, and answers each request at once.
  void pass_and_answer(std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed < time; passed += 10ms) {
      pass(10ms);
      while (store_->pending() > 0) answer();
    }
  }

  /// As another process would.
  Decision do_elsewhere(Operation operation, std::int64_t cost) {
    return store_->decide_one({.limit = &limit_->definition(),
                               .space = space_.get(),
                               .key = "k",
                               .operation = operation,
                               .cost = cost});
  }
  Decision peek() { return do_elsewhere(Operation::kTake, 0); }
  /// Of a limit that has two parts.
  std::vector<Decision> peek_parts() {
    std::vector<Decision> parts(2);
    store_->decide_one({.limit = &limit_->definition(),
                        .space = space_.get(),
                        .key = "k",
                        .cost = 0,
                        .parts = parts});
    return parts;
  }

  /// How often the store was asked for units since the last call.
  std::int64_t takes() {
    const auto count = std::ranges::count_if(store_->asked, [](const auto& asked) {
      return asked.operation == Operation::kTake && asked.cost > 0;
    });
    store_->asked.clear();
    return count;
  }

  void TearDown() override {
    stop_.request_stop();
    pass_and_answer(1s);
  }

  std::shared_ptr<ManualTimerQueue> timer_ = std::make_shared<ManualTimerQueue>();
  std::shared_ptr<ScriptedStore> store_;
  std::shared_ptr<Space> space_;
  std::unique_ptr<Limit> limit_;
  std::unique_ptr<Limiter> limiter_;
  std::stop_source stop_;
  int last_number_ = 0;
  std::vector<int> granted_;
  std::vector<int> denied_;
  std::chrono::nanoseconds delay_{};  // That the last one was told.
};

TEST_F(ReservedUnitsTest, OfEachKeyOneCallerAsksWithinASecond) {
  use("token_bucket 1/10s burst=2", 2);
  for (int i = 0; i < 3; ++i) come();
  const Decision before = peek();
  takes();
  pass(850ms - 1ns);
  EXPECT_EQ(store_->pending(), 0U);
  for (int i = 0; i < 5; ++i) {
    pass(1ns);
    ASSERT_EQ(store_->pending(), 1U);
    EXPECT_EQ(store_->asked.back().patience_ns, 0);
    EXPECT_EQ(store_->asked.back().most_denial_age_ns, std::chrono::nanoseconds(100ms).count());
    pass(100ms);
    answer();
    pass(750ms - 1ns);
    EXPECT_EQ(store_->pending(), 0U);
  }
  EXPECT_THAT(granted_, IsEmpty());
  EXPECT_EQ(peek().reset_after, before.reset_after - 6 * 850ms + 1ns) << "it takes nothing";
}

TEST_F(ReservedUnitsTest, AreThereWithinASecondOfAResetElsewhere) {
  use("token_bucket 1/10s burst=9", 9);
  for (int i = 0; i < 3; ++i) come(4);
  do_elsewhere(Operation::kReset, 1);
  pass_and_answer(850ms);
  EXPECT_THAT(granted_, ElementsAre(1, 2)) << "as many as there are, in order";
  EXPECT_EQ(delay_, 0ns);
  EXPECT_EQ(peek().remaining, 1);
}

TEST_F(ReservedUnitsTest, AreThereAtTheInstantThatWasReserved) {
  use("token_bucket 1/1s", 1);
  come();
  pass(1s - 1ns);
  ASSERT_EQ(store_->pending(), 1U) << "it asks whether they are there already";
  EXPECT_THAT(granted_, IsEmpty());
  do_elsewhere(Operation::kReset, 1);
  pass(1ns);
  EXPECT_THAT(granted_, ElementsAre(1)) << "it does not wait for the answer";
  answer();
  ASSERT_EQ(store_->asked.back().operation, Operation::kRefund) << "of what comes too late";
  answer();
  EXPECT_EQ(peek().remaining, 1);
}

// It has asked, and then another limit has made it return what it had reserved, and reserve anew.
TEST_F(ReservedUnitsTest, TooLateAnAnswerIsNoneToWhatIsReservedAnew) {
  use("token_bucket 1/10s burst=9", 9);
  come(4);
  do_elsewhere(Operation::kReset, 1);
  pass(850ms);
  ASSERT_EQ(store_->pending(), 1U);
  store_->on_the_way = [this] {
    do_elsewhere(Operation::kCharge, 99);
    limiter_->set_limit(Limit("token_bucket 1/10s burst=8", "limit"));
    timer_->run();
    answer();
    ASSERT_EQ(store_->asked.back().operation, Operation::kTake);
    answer();
  };
  answer();
  EXPECT_THAT(granted_, IsEmpty());
  EXPECT_EQ(store_->asked.back().operation, Operation::kRefund) << "of what came too late";
  answer();
}

TEST_F(ReservedUnitsTest, AreKeptWhenTheLimitOfOthersIsReplaced) {
  use("token_bucket 1/10s burst=9", 9);
  come(4);
  Limiter(store_, *limit_).set_limit(Limit("token_bucket 1/10s burst=8", "limit"));
  limiter_->set_limit(*limit_);  // The same.
  timer_->run();
  EXPECT_EQ(store_->pending(), 0U);
}

TEST_F(ReservedUnitsTest, ACallerThatIsStoppedWhileTheyAreReturnedAsksForNone) {
  use("token_bucket 1/10s burst=9", 9);
  come(4);
  for (const char* burst : {"8", "7"}) {
    limiter_->set_limit(Limit(std::string("token_bucket 1/10s burst=") + burst, "limit"));
  }
  timer_->run();
  ASSERT_EQ(store_->asked.back().operation, Operation::kRefund);
  stop_.request_stop();
  timer_->run();
  EXPECT_THAT(denied_, ElementsAre(1));
  takes();
  answer();
  EXPECT_EQ(takes(), 0);
}

TEST_F(ReservedUnitsTest, ACallerOfWhichTheUnitsComeSoonDoesNotAsk) {
  use("token_bucket 1/900ms", 1);
  come();
  takes();
  pass(899ms);
  EXPECT_EQ(takes(), 0);
  pass(1ms);
  EXPECT_THAT(granted_, ElementsAre(1));
}

// While callers go ahead one after the other, each of them soon, the next ones ask.
TEST_F(ReservedUnitsTest, ManyCallersAskNoMoreOftenThanOne) {
  use("token_bucket 100/1s", 100);
  for (int i = 0; i < 500; ++i) come();
  takes();
  pass_and_answer(4s);
  EXPECT_EQ(granted_.size(), 400U);
  EXPECT_EQ(takes(), 4);
}

// The bucket would admit it anew, but the window would be charged twice.
TEST_F(ReservedUnitsTest, OfACallerWithSeveralClaimsAreNotAskedFor) {
  use("token_bucket 1/10s", 1);
  const Limit hourly("fixed_window 5/1h", "hourly");
  const auto hourly_space = store_->open_space(hourly.definition());
  const auto claim = [&](const Limit& limit) {
    return AcquireClaim{.binding = bind_to_timer(store_, limit, LimitBinding::Kind::kUnits, timer_),
                        .key = "k"};
  };
  AcquireRequest request(claim(hourly), timer_->after(1h));
  request.claims.push_back(claim(*limit_));
  WaitQueues::acquire(std::move(request), {}, [&](const AcquireOutcome& outcome) {
    (outcome.decision.allowed ? granted_ : denied_).push_back(0);
  });
  timer_->run();
  answer();
  come();
  do_elsewhere(Operation::kReset, 1);
  pass_and_answer(850ms);
  EXPECT_THAT(granted_, ElementsAre(1)) << "the one behind it asks";
  pass_and_answer(10s);
  EXPECT_THAT(granted_, ElementsAre(1, 0));
  const Request peeked{
      .limit = &hourly.definition(), .space = hourly_space.get(), .key = "k", .cost = 0};
  EXPECT_EQ(store_->decide_one(peeked).remaining, 4);
}

// The bucket refills what was taken twice; the window counts it until its end.
TEST_F(ReservedUnitsTest, OfABucketAndAWindowAreNotAskedFor) {
  use("token_bucket 1/10s burst=9 & fixed_window 20/1h", 9);
  come();
  do_elsewhere(Operation::kRefund, 9);
  pass_and_answer(10s);
  EXPECT_THAT(granted_, ElementsAre(1));
  EXPECT_EQ(peek_parts()[1].remaining, 20 - 1);
}

// The window may have begun long before the answer.
TEST_F(ReservedUnitsTest, AreNotReturnedOnceTheyDoNotCountHoweverSlowTheAnswerWas) {
  use("fixed_window 5/1s", 0);
  Reservation reserved;
  const std::function<void()> ways[] = {
      [&] { reserved = limiter_->reserve("k", 5, 0ms); },
      [&] {
        reserved = std::move(reserve_all({{*limiter_, "k", 5}}, 0ms)[0]);
      },
      [&] {
        limiter_->async_reserve("k", 5, 0ms, [&](Reservation made, const std::exception_ptr&) {
          reserved = std::move(made);
        });
        answer();
      },
  };
  for (const auto& reserve : ways) {
    SCOPED_TRACE(&reserve - ways);
    store_->on_the_way = [this] { pass(400ms); };
    reserve();
    ASSERT_TRUE(reserved);
    pass(600ms);
    EXPECT_TRUE(do_elsewhere(Operation::kTake, 5).allowed) << "in the next window";
    reserved.cancel();
    EXPECT_EQ(peek().remaining, 0);
    pass(1s);
  }
}

TEST_F(ReservedUnitsTest, OfAPolicyAreNotAskedFor) {
  use("token_bucket 1/10s", 1);
  store_->says = [](const Request&) {
    return Decision{.allowed = true, .source = Source::kLocal, .delay = 10s};
  };
  come();
  takes();
  pass(5s);
  EXPECT_EQ(takes(), 0);
}

}  // namespace
}  // namespace sluice
