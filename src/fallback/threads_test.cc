#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

class FallbackThreadsTest : public FallbackFixture {};

TEST_F(FallbackThreadsTest, ManyThreadsAskAtOnce) {
  inner_->answers = ScriptedStore::Answers::kOnAnotherThread;
  inner_->loses = [count = 0](const Request&) mutable { return ++count % 3 == 0; };
  wrap({}, "token_bucket 20/1h");
  std::vector<std::thread> threads;
  std::atomic<int> unanswered{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const Limit other("token_bucket " + std::to_string(30 + thread) + "/1h", "limit");
      for (int i = 0; i < 60; ++i) {
        if (i % 20 == 0) static_cast<void>(store_->open_space(other.definition()));
        const auto operation = i % 9 == 0 ? Operation::kReset : Operation::kTake;
        const std::string key = std::to_string(i % 4);
        const std::vector<Request> asked{request({.key = key, .operation = operation}),
                                         request({})};
        std::vector<Decision> answers(2);
        if (i % 2 == 0) {
          store_->decide(asked, kStoreTime, answers);
        } else {
          const auto completed = std::make_shared<std::promise<void>>();
          auto batch = std::make_unique<Batch>(asked);
          batch->completion = [&answers, completed](Batch& told) {
            std::ranges::copy(told.decisions(), answers.begin());
            completed->set_value();
          };
          store_->submit(std::move(batch));
          completed->get_future().wait();
        }
        for (const Decision& answer : answers) {
          unanswered += answer.source == Source::kUnavailable ? 1 : 0;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(unanswered, 0);
  EXPECT_EQ(store_->counters().answered_by_local, store_->counters().unanswered);
  EXPECT_GT(store_->counters().answered_by_local, 0U);
}

}  // namespace
}  // namespace sluice
