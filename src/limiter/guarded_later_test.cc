#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <thread>

#include "core/waiting.h"
#include "limiter/far_store.h"
#include "limiter/guard_under_test.h"

namespace sluice {
namespace {

using testing::ElementsAre;

/// Stores that answer later, or on another thread.
class GuardedLaterTest : public GuardUnderTest {
 protected:
  struct Submitted final : Inquiry {
    Submitted(std::vector<Request> asked, bool all) : asks(std::move(asked)), answers(asks.size()) {
      requests = asks;
      decisions = answers;
      together = all;
    }
    void answered() noexcept override { ++times_answered; }

    std::vector<Request> asks;
    std::vector<Decision> answers;
    int times_answered = 0;
  };

  Submitted make(const std::vector<Ask>& asks, bool together = false) {
    return {requests(asks), together};
  }

  void SetUp() override { inner_->late = true; }
};

TEST_F(GuardedLaterTest, AnswersWhenTheStoreDoes) {
  guard({});
  EXPECT_TRUE(store_->answers_later());
  lose("b");
  auto inquiry = make({{.key = "a"}, {.key = "b", .cost = 2}, {.key = "a"}});
  EXPECT_FALSE(store_->submit_inquiry(inquiry));
  EXPECT_EQ(inquiry.times_answered, 0);
  inner_->answer_all();
  EXPECT_EQ(inquiry.times_answered, 1);
  EXPECT_EQ(inquiry.answers[0].remaining, 9);
  EXPECT_EQ(inquiry.answers[1].remaining, 8);
  EXPECT_EQ(inquiry.answers[1].source, Source::kLocal);
  EXPECT_EQ(inquiry.answers[2].remaining, 8);
  EXPECT_EQ(inquiry.fault, "");
}

TEST_F(GuardedLaterTest, WarmsTheLocalStates) {
  guard({});
  auto inquiry = make({{.cost = 4}});
  EXPECT_FALSE(store_->submit_inquiry(inquiry));
  inner_->answer_all();
  inner_->lose_all();
  EXPECT_EQ(decide({.cost = 0}).remaining, 6);
}

TEST_F(GuardedLaterTest, TellsWhatItMayNotAnswer) {
  guard({.on_failure = OnFailure::kRaise});
  lose("b");
  auto inquiry = make({{.key = "a"}, {.key = "b"}});
  auto group = make({{.key = "a"}, {.key = "b"}}, true);
  EXPECT_FALSE(store_->submit_inquiry(inquiry));
  EXPECT_FALSE(store_->submit_inquiry(group));
  inner_->answer_all();
  EXPECT_TRUE(inquiry.answers[0].allowed);
  EXPECT_EQ(inquiry.answers[1].source, Source::kUnanswered);
  EXPECT_EQ(inquiry.fault, "the line is cut");
  EXPECT_EQ(group.answers[0].source, Source::kUnanswered);
  EXPECT_EQ(group.fault, "the line is cut");
  EXPECT_EQ(group.times_answered, 1);
}

TEST_F(GuardedLaterTest, AnswersGroups) {
  guard({});
  auto first = make({{.key = "a", .cost = 3}, {.key = "b"}}, true);
  EXPECT_FALSE(store_->submit_inquiry(first));
  inner_->answer_all();
  EXPECT_EQ(first.answers[0].remaining, 7);
  inner_->lose_all();
  auto second = make({{.key = "a"}, {.key = "b"}}, true);
  EXPECT_FALSE(store_->submit_inquiry(second));
  inner_->answer_all();
  EXPECT_EQ(second.answers[0].source, Source::kLocal);
  EXPECT_EQ(second.answers[0].remaining, 6);
}

// Nobody is there to catch what a local group throws.
TEST_F(GuardedLaterTest, AMisusedGroupThatIsLostIsAFault) {
  guard({});
  inner_->lose_all();
  auto group = make({{.key = "a"}, {.key = "a"}}, true);
  EXPECT_FALSE(store_->submit_inquiry(group));
  inner_->answer_all();
  EXPECT_EQ(group.times_answered, 1);
  EXPECT_EQ(group.answers[0].source, Source::kUnanswered);
  EXPECT_THAT(group.fault, testing::HasSubstr("named twice"));
}

TEST_F(GuardedLaterTest, AnswersAtOnceWhatItRemembers) {
  guard({});
  decide({.cost = 10});
  decide(Ask{});
  inner_->asked.clear();
  auto inquiry = make({Ask{}, {.cost = 2}});
  EXPECT_TRUE(store_->submit_inquiry(inquiry));
  EXPECT_EQ(inquiry.answers[0].source, Source::kCache);
  EXPECT_EQ(inquiry.answers[1].source, Source::kCache);
  EXPECT_EQ(inquiry.times_answered, 0);
  EXPECT_TRUE(inner_->asked.empty());

  // What it learns comes from later answers too.
  auto denied = make({{.key = "late", .cost = 10}, {.key = "late"}});
  EXPECT_FALSE(store_->submit_inquiry(denied));
  inner_->answer_all();
  EXPECT_EQ(decide({.key = "late"}).source, Source::kCache);
}

TEST_F(GuardedLaterTest, PassesOnWhatAStoreAnswersAtOnce) {
  inner_->late = false;
  lose("b");
  const std::vector<Ask> asks{{.key = "a"}, {.key = "b"}};
  guard({});
  auto local = make(asks);
  EXPECT_TRUE(store_->submit_inquiry(local));
  EXPECT_EQ(local.answers[0].source, Source::kStore);
  EXPECT_EQ(local.answers[1].source, Source::kLocal);

  guard({.on_failure = OnFailure::kRaise});
  auto raised = make(asks);
  EXPECT_THROW(store_->submit_inquiry(raised), StoreError);
  EXPECT_EQ(raised.answers[0].source, Source::kStore);
  EXPECT_EQ(raised.answers[1].source, Source::kUnanswered);
  EXPECT_EQ(raised.fault, "the line is cut");

  inner_->mute = true;
  auto told = make(asks);
  EXPECT_TRUE(store_->submit_inquiry(told));
  EXPECT_EQ(told.answers[1].source, Source::kUnanswered);
  EXPECT_EQ(told.fault, "the store did not answer");
}

TEST_F(GuardedLaterTest, AnInquiryMayTakeItsSpaceWithIt) {
  guard({});
  auto inquiry = make({Ask{}});
  EXPECT_FALSE(store_->submit_inquiry(inquiry));
  inner_->answer_all();
  space_.reset();
  EXPECT_TRUE(inquiry.answers[0].allowed);
}

/// Runs something when it goes.
struct AtTheEnd {
  ~AtTheEnd() { run(); }
  std::function<void()> run;
};

// What it lets go of once the thread's own objects have gone is kept for nobody.
TEST_F(GuardedLaterTest, ServesAThreadThatEnds) {
  guard({});
  auto first = make({Ask{}});
  auto second = make({Ask{}});
  const auto ask = [&] {
    EXPECT_FALSE(store_->submit_inquiry(first));
    EXPECT_FALSE(store_->submit_inquiry(second));
    inner_->answer_all();
  };
  std::thread([&] {
    thread_local AtTheEnd last;  // It came before all that the store keeps for this thread.
    last.run = [&] {
      ask();
      ask();
    };
    ask();
  }).join();
  EXPECT_EQ(first.times_answered, 3);
  EXPECT_EQ(second.times_answered, 3);
}

/// Runs something when it is answered.
struct Answerable final : Inquiry {
  void answered() noexcept override { then(); }

  std::function<void()> then;
};

// A denial stands from when it was asked for, and not from when the one who then took long was
// told.
TEST_F(GuardedLaterTest, WhoIsToldLateAsksByALaterClock) {
  guard({}, "sliding_log 1/300ms");
  const auto request = this->request(Ask{});
  Decision decision;
  Answerable slow;
  slow.requests = {&request, 1};
  slow.decisions = {&decision, 1};
  slow.then = [&] {
    const Instant began = store_->now();
    while (store_->now() < began + 300 * kMillisecondNs) {
    }
    EXPECT_TRUE(decide(Ask{}).allowed);
    EXPECT_EQ(decide(Ask{}).source, Source::kStore);
    EXPECT_EQ(decide(Ask{}).source, Source::kCache);
  };
  EXPECT_FALSE(store_->submit_inquiry(slow));
  inner_->answer_all();
}

// What the refund makes possible is denied to nobody, whichever numbers they ask by.
TEST_F(GuardedLaterTest, ARefundClearsWhatOtherNumbersDeniedMeanwhile) {
  guard({}, "token_bucket 1/1h");
  EXPECT_TRUE(decide(Ask{}).allowed);
  auto refund = make({Ask{.operation = Operation::kRefund}});
  EXPECT_FALSE(store_->submit_inquiry(refund));
  const auto former = std::move(limit_);
  use("token_bucket 1/2h");
  EXPECT_EQ(decide(Ask{}).source, Source::kStore);
  EXPECT_EQ(decide(Ask{}).source, Source::kCache);
  inner_->answer_all();
  EXPECT_TRUE(decide(Ask{}).allowed);
}

TEST_F(GuardedLaterTest, ManyThreadsAskAtOnce) {
  store_ = std::make_unique<GuardedStore>(std::make_shared<FarStore>(3), GuardOptions{});
  use("token_bucket 20/1h");
  std::vector<std::thread> threads;
  std::atomic<int> unanswered{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const Limit other("token_bucket " + std::to_string(30 + thread) + "/1h", "limit");
      for (int i = 0; i < 60; ++i) {
        if (i % 20 == 0) static_cast<void>(store_->open_space(other.definition()));
        const auto operation = i % 9 == 0 ? Operation::kReset : Operation::kTake;
        const std::string key = std::to_string(i % 4);
        std::vector<Request> asked{request({.key = key, .operation = operation}), request({})};
        std::vector<Decision> answers(2);
        if (i % 2 == 0) {
          store_->decide(asked, kStoreTime, answers);
        } else {
          AwaitedInquiry inquiry;
          inquiry.requests = asked;
          inquiry.decisions = answers;
          if (!store_->submit_inquiry(inquiry)) inquiry.wait();
        }
        for (const Decision& answer : answers) {
          unanswered += answer.source == Source::kUnanswered ? 1 : 0;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(unanswered, 0);
  EXPECT_EQ(store_->counters().local_answers, store_->counters().unanswered);
  EXPECT_GT(store_->counters().local_answers, 0U);
}

}  // namespace
}  // namespace sluice
