#include "stores/remote/remote_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <initializer_list>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/callback_threads.h"
#include "stores/remote/remote_store.h"
#include "testing/late_answers.h"
#include "testing/remote_space.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 60s;

// Answers by the key: "now" at once, "later" when flushed, "soon" by an event, "error" never can,
// "lost" is sent and gets no reply, "late" is sent and gets one when the test says ("soon late": by
// the next event), "sent later" is sent when it is first asked about; what else it is asked waits
// for the test.
class FakeRouter final : public Router {
 public:
  using Clock = RemoteWorker::Clock;

  RemoteWorker* worker = nullptr;
  RequestList waiting;
  std::vector<PendingRequest*> later;
  std::optional<Clock::time_point> sent_later;  // When "sent later" was.
  bool answers_sent_later = false;              // It gets its reply with "soon late".
  std::size_t abandoned = 0;
  std::thread::id thread;             // Of the last route().
  std::function<void()> when_routed;  // Once.

  void route(PendingRequest& request) override {
    thread = std::this_thread::get_id();
    if (const auto event = std::exchange(when_routed, nullptr)) event();
    const std::string_view key = request.requests[0].key;
    if (key == "sent later") sent_later.reset();
    if (key == "now") return answer(request);
    request.may_be_executed = key == "lost";
    if (key == "error" || key == "lost") return worker->fail(request, "the server is on fire");
    if (key == "later") return later.push_back(&request);
    if (key == "soon") return worker->context().post([this, &request] { answer(request); });
    waiting.push_back(request);
  }

  void flush() override {
    for (PendingRequest* request : std::exchange(later, {})) answer(*request);
  }

  std::optional<Clock::time_point> sent_at(const PendingRequest& request) override {
    if (request.requests[0].key != "sent later") return std::nullopt;
    if (!sent_later) sent_later = Clock::now();
    return sent_later;
  }

  std::string expire(PendingRequest& request) override {
    const std::string_view key = request.requests[0].key;
    request.is_late = request.may_be_executed = key == "late" || key == "soon late";
    if (!request.is_late) abandon(request);
    if (key == "soon late") {
      worker->context().post([this] {
        answer(waiting.pop_front());
        if (answers_sent_later) answer(waiting.pop_front());
      });
    }
    return "the server did not answer";
  }
  void abandon(PendingRequest& request) override {
    ++abandoned;
    request.unlink();
  }

  void answer(PendingRequest& request) {
    *request.decision = {.allowed = true, .limit = request.requests[0].cost};
    worker->complete(request, RemoteWorker::Clock::now());
  }
};

std::vector<Request> requests(std::initializer_list<std::string_view> keys) {
  std::vector<Request> made;
  for (const auto key : keys) {
    made.push_back({.key = key, .cost = static_cast<std::int64_t>(made.size()) + 1});
  }
  return made;
}

// A worker that never had anything to do.
class RemoteWorkerTest : public testing::Test {
 protected:
  static constexpr std::int64_t kMost = RemoteWorker::kMaxPending;

  explicit RemoteWorkerTest(std::chrono::nanoseconds deadline = kLong)
      : worker_(std::in_place,
                RemoteWorker::Options{.deadline = deadline, .name = "the store on x"}) {
    router_.worker = &*worker_;
    worker_->start(router_);
  }

  struct Answers {
    std::vector<Decision> decisions;
    std::string error = {};
  };
  static Answers answers_of(const Batch& batch) {
    return {{batch.decisions().begin(), batch.decisions().end()}, batch.error()};
  }

  // Asks, and waits. The outer store, if there is one, has answered "known" itself.
  Answers ask(const std::vector<Request>& asked, Batch::OuterStore* outer = nullptr) {
    Answers answers;
    auto batch = std::make_unique<Batch>(asked);
    batch->outer.store = outer;
    if (asked[0].key == "known") batch->decisions()[0].source = Source::kCache;
    batch->completion = [&](const Batch& completed) { answers = answers_of(completed); };
    worker_->submit_and_wait(std::move(batch));
    return answers;
  }
  Answers ask(std::initializer_list<std::string_view> keys, Batch::OuterStore* outer = nullptr) {
    return ask(requests(keys), outer);
  }

  // Asks without waiting.
  void submit(const std::vector<Request>& asked, Batch::Completion completion) {
    auto batch = std::make_unique<Batch>(asked);
    batch->completion = std::move(completion);
    worker_->submit(std::move(batch));
  }
  void submit(std::initializer_list<std::string_view> keys, Batch::Completion completion) {
    submit(requests(keys), std::move(completion));
  }
  std::future<Answers> submit(std::initializer_list<std::string_view> keys) {
    auto answers = std::make_shared<std::promise<Answers>>();
    submit(keys, [answers](const Batch& batch) { answers->set_value(answers_of(batch)); });
    return answers->get_future();
  }
  void on_worker(const std::function<void()>& task) {
    std::promise<void> done;
    worker_->post([&] {
      task();
      done.set_value();
    });
    done.get_future().get();
  }

  // The thread that sends what is asked now.
  std::thread::id thread_that_leads() {
    EXPECT_EQ(ask({"soon"}).error, "");
    return router_.thread;
  }

  FakeRouter router_;
  std::optional<RemoteWorker> worker_;
};

TEST(RemoteWorker, ASilentServerIsGivenUpAfterTwoDeadlinesButNotAtOnce) {
  const PipelineOptions by_default;
  const auto options = [](std::chrono::milliseconds deadline) {
    return RemoteWorker({.deadline = deadline}).pipeline_options({.host = "h", .port = 1});
  };
  EXPECT_EQ(options(10ms).patience, 20ms);
  EXPECT_EQ(options(10ms).silence_timeout, by_default.silence_timeout);
  EXPECT_EQ(options(10ms).handshake_timeout, by_default.handshake_timeout);
  EXPECT_EQ(options(2s).silence_timeout, 4s);
  EXPECT_EQ(options(2s).handshake_timeout, 4s);
  EXPECT_EQ(options(1min).handshake_timeout, 5s);
  EXPECT_EQ(options(2s).endpoint.host, "h");
}

TEST_F(RemoteWorkerTest, RefusesACompletionThatWouldWaitForItsOwnThread) {
  std::promise<void> refused;
  submit({"now"}, [&](const Batch&) {
    EXPECT_THROW(ask({"now"}), std::logic_error);
    EXPECT_TRUE(runs_callbacks) << "nor can it wait for the timer thread";
    refused.set_value();
  });
  refused.get_future().get();
  EXPECT_EQ(ask({"now"}).error, "");
}

// Events of others: each one begins the next, ten million times.
class EndlessEvents {
 public:
  explicit EndlessEvents(RemoteWorker& worker) : worker_(worker) { next(); }
  ~EndlessEvents() {
    ends_ = true;
    std::promise<void> ended;
    worker_.context().post([&] { ended.set_value(); });  // After the last of them.
    ended.get_future().get();
  }

  // False if all ten million were handled: a thread that handles events never stopped to do what
  // the test waits for.
  bool go_on() const { return left_ != 0; }

 private:
  void next() {
    worker_.context().post([this] {
      if (!ends_ && --left_ != 0) next();
    });
  }

  RemoteWorker& worker_;
  std::atomic<bool> ends_ = false;
  std::atomic<int> left_ = 10'000'000;
};

TEST_F(RemoteWorkerTest, TooMuchIsRefusedAtOnceAndTakesNoRoom) {
  const std::vector<Request> many(kMost + 1, Request{.key = "now"});
  const Answers answers = ask(many);
  EXPECT_EQ(answers.decisions.back().source, Source::kUnavailable);
  EXPECT_EQ(answers.error, "more than 100000 requests wait for the store on x");
  EXPECT_EQ(ask(std::vector<Request>(kMost, Request{.key = "now"})).error, "");
}

// A completion, on whatever thread, may use all its room at once.
TEST_F(RemoteWorkerTest, AnAnsweredBatchDoesNotCountWhenItsCompletionRuns) {
  std::promise<Answers> again;
  const std::vector<Request> most(kMost, Request{.key = "now"});
  submit(most, [&](const Batch&) {
    std::thread([&] {
      submit(most, [&](const Batch& batch) { again.set_value(answers_of(batch)); });
    }).join();
  });
  EXPECT_EQ(again.get_future().get().error, "");
}

TEST_F(RemoteWorkerTest, PendingRequestsAreUnavailableWhenItStops) {
  std::vector<std::string> errors;
  submit({"now", "silence"}, [&](const Batch& batch) {
    EXPECT_EQ(batch.decisions()[0].source, Source::kStore);
    EXPECT_EQ(batch.decisions()[1].source, Source::kUnavailable);
    errors.push_back(batch.error());
    submit({"now"}, [&](const Batch& again) { errors.push_back(again.error()); });
  });
  on_worker([&] { EXPECT_EQ(errors.size(), 0U); });
  worker_.reset();
  const std::string why = "the store on x was closed before it answered";
  EXPECT_THAT(errors, testing::ElementsAre(why, why));
  EXPECT_EQ(router_.abandoned, 1U);
}

class RemoteWorkerLeadTest : public RemoteWorkerTest {
 protected:
  RemoteWorkerLeadTest() {
    while (thread_that_leads() != std::this_thread::get_id()) std::this_thread::yield();
  }

  // The caller leads, and while it waits for its answer `event` happens. If it was held up before,
  // the worker thread has the lead, and the caller asks again.
  Answers lead(const std::function<void()>& event) {
    Answers answers;
    bool leads = false;
    for (int tries = 0; !leads && tries < 1'000; ++tries) {
      router_.when_routed = [&, caller = std::this_thread::get_id()] {
        leads = router_.thread == caller;
        if (leads) return event();
        worker_->context().post([this] { answer_all(); });
      };
      answers = ask({"by test"});
    }
    EXPECT_TRUE(leads);
    return answers;
  }
  void answer_all() {
    while (!router_.waiting.empty()) router_.answer(router_.waiting.pop_front());
  }
};

TEST_F(RemoteWorkerLeadTest, AnswersOtherCallersWhoWait) {
  std::thread::id other_thread;
  std::thread other;
  const Answers answers = lead([&] {
    other = std::thread([&] {
      const Answers others = ask({"now"});
      EXPECT_EQ(others.error, "");
      worker_->post([this] { answer_all(); });
    });
    router_.when_routed = [&] { other_thread = std::this_thread::get_id(); };
  });
  other.join();
  EXPECT_EQ(answers.error, "");
  EXPECT_EQ(other_thread, std::this_thread::get_id());
}

// It may hold locks that a completion wants.
TEST_F(RemoteWorkerLeadTest, LeavesCompletionsAndTasksToTheWorkerThread) {
  std::promise<std::thread::id> completed;
  std::promise<std::thread::id> ran;
  const Answers answers = lead([&] {
    std::thread([&] {
      submit({"now"}, [&](const Batch&) { completed.set_value(std::this_thread::get_id()); });
      worker_->post([&] {
        ran.set_value(std::this_thread::get_id());
        answer_all();
      });
    }).join();
  });
  EXPECT_EQ(answers.error, "");
  const std::thread::id worker_thread = ran.get_future().get();
  EXPECT_NE(worker_thread, std::this_thread::get_id());
  EXPECT_EQ(completed.get_future().get(), worker_thread);
}

TEST_F(RemoteWorkerLeadTest, LeavesOnceItIsAnsweredWhateverElseHappens) {
  const EndlessEvents events(*worker_);
  EXPECT_EQ(ask({"error"}).error, "the server is on fire");
  EXPECT_TRUE(events.go_on());
}

TEST_F(RemoteWorkerLeadTest, PassesTheLeadOnWhereOthersWait) {
  std::thread other;
  const Answers answers = lead([&] {
    other = std::thread([&] { EXPECT_EQ(ask({"by test, too"}).error, ""); });
    router_.when_routed = [this] {
      worker_->context().post([this] { router_.answer(router_.waiting.pop_front()); });
    };
  });
  EXPECT_EQ(answers.error, "");
  EXPECT_NE(thread_that_leads(), std::this_thread::get_id());
  worker_->post([this] { answer_all(); });
  other.join();
}

TEST_F(RemoteWorkerLeadTest, PassesTheLeadOnWhereTheContextHasWork) {
  IoContext::Work work(worker_->context());
  lead([&] {
    work.set(true);
    worker_->context().post([&] { answer_all(); });
  });
  EXPECT_NE(thread_that_leads(), std::this_thread::get_id());
  on_worker([&] { work.set(false); });
}

// An idle connection that the server closes is renewed though no caller asks.
TEST_F(RemoteWorkerLeadTest, TheWorkerThreadLeadsOnceNoCallerHasForAWhile) {
  std::promise<std::thread::id> runs_on;
  worker_->context().post([&] { runs_on.set_value(std::this_thread::get_id()); });
  EXPECT_NE(runs_on.get_future().get(), std::this_thread::get_id());
}

TEST_F(RemoteWorkerTest, ManyThreadsAskAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> sum = 0;
  std::atomic<int> completed = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 1; i <= 500; ++i) {
        const std::string_view key = std::array{"now", "later", "soon"}.at(i % 3);
        sum += ask({Request{.key = key, .cost = static_cast<std::int64_t>(i)}}).decisions[0].limit;
        // One of them does not wait in between.
        if (t == 0) {
          submit({"soon"}, [&](const Batch& batch) {
            sum += batch.decisions()[0].limit;
            ++completed;
          });
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  while (completed < 500) std::this_thread::yield();
  EXPECT_EQ(sum.load(), 4 * 500 * 501 / 2 + 500);
}

class RemoteWorkerDeadlineTest : public RemoteWorkerTest {
 protected:
  RemoteWorkerDeadlineTest() : RemoteWorkerTest(20ms) {}

  StoreHealth health() {
    StoreHealth now;
    worker_->monitor().add_to(now);
    return now;
  }
  // Takes longer than the deadline.
  static void be_late() {
    const auto late = RemoteWorker::Clock::now() + 30ms;
    while (RemoteWorker::Clock::now() < late) {
    }
  }
};

TEST_F(RemoteWorkerDeadlineTest, AnArrivedReplyCountsEvenIfTheThreadIsLate) {
  router_.when_routed = be_late;
  EXPECT_EQ(ask({"soon"}).error, "");
  EXPECT_EQ(submit({"soon"}).get().error, "");
  EXPECT_EQ(router_.abandoned, 0U);
}

// Others are answered meanwhile, and deadlines pass, even if its requests fail at once.
TEST_F(RemoteWorkerDeadlineTest, ACompletionThatAsksForEverHoldsUpNobody) {
  for (const std::string_view key : {"now", "later", "soon", "error"}) {
    std::atomic<bool> ends = false;
    std::promise<void> ended;
    std::function<void(const Batch&)> again = [&](const Batch&) {
      if (ends) return ended.set_value();
      submit({key}, again);
    };
    submit({key}, again);
    auto late = submit({"silence"});
    EXPECT_EQ(submit({"soon"}).wait_for(kLong), std::future_status::ready) << key;
    EXPECT_EQ(late.wait_for(kLong), std::future_status::ready) << key;
    ends = true;
    ended.get_future().get();
    EXPECT_EQ(late.get().error, "the server did not answer");
  }
}

class RemoteWorkerLateTest : public RemoteWorkerDeadlineTest {
 protected:
  Answers ask_late(std::initializer_list<std::string_view> keys) { return ask(keys, &wanted_); }
  // The reply to the request that has waited longest.
  void reply() {
    on_worker([&] { router_.answer(router_.waiting.pop_front()); });
  }

  LateAnswers wanted_;
};

TEST_F(RemoteWorkerLateTest, ALateReplyIsGivenToWhoWantsIt) {
  const Answers answers = ask_late({"known", "late", "silence", "now", "late"});
  EXPECT_EQ(answers.decisions[0].source, Source::kCache) << "it is not asked";
  EXPECT_EQ(answers.decisions[1].taken, kTakenLater);
  EXPECT_EQ(answers.decisions[2].taken, 0);
  EXPECT_EQ(answers.decisions[3].source, Source::kStore);
  EXPECT_EQ(answers.error, "the server did not answer");
  EXPECT_THAT(wanted_.replied, testing::ElementsAre(3));
  EXPECT_EQ(router_.abandoned, 1U) << "the one that was not sent";
  reply();
  EXPECT_TRUE(wanted_.all.empty()) << "there is another";
  reply();
  ASSERT_EQ(wanted_.all.size(), 2U);
  EXPECT_EQ(wanted_.all[0].limit, 2) << "each has its own";
  EXPECT_EQ(wanted_.all[1].limit, 5);
  EXPECT_EQ(health().answered_by_store, 1U);
  EXPECT_EQ(health().late_server + health().late_here, 3U);
}

TEST_F(RemoteWorkerLateTest, EachRequestHasOneCount) {
  ask_late({"late"});
  EXPECT_EQ(health().late_server + health().late_here, 0U) << "its reply may come";
  on_worker([&] { worker_->refuse(router_.waiting.pop_front(), "no memory"); });
  EXPECT_EQ(health().refused, 1U);
  EXPECT_EQ(health().late_server + health().late_here, 0U);
  EXPECT_EQ(health().refusal, "no memory");
  EXPECT_EQ(health().answered_by_store, 0U);
}

TEST_F(RemoteWorkerLateTest, ALateReplyMayStillAnswerABatchThatWaitsForOthers) {
  const Answers answers = ask_late({"soon late", "sent later"});
  EXPECT_EQ(answers.decisions[0].source, Source::kStore);
  EXPECT_EQ(answers.decisions[1].source, Source::kUnavailable);
  EXPECT_TRUE(wanted_.all.empty());
  EXPECT_EQ(health().answered_by_store, 1U);
  EXPECT_EQ(health().late_server + health().late_here, 1U) << "the other";
  router_.answers_sent_later = true;
  const Answers all = ask_late({"soon late", "sent later"});
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.decisions[0].source, Source::kStore);
  EXPECT_EQ(all.decisions[1].source, Source::kStore);
}

TEST_F(RemoteWorkerLateTest, ALateReplyThatNobodyWantsIsAbandoned) {
  const Answers answers = ask({"late", "now"});
  EXPECT_EQ(answers.decisions[0].taken, kTakenUnknown);
  EXPECT_EQ(answers.error, "the server did not answer");
  EXPECT_EQ(router_.abandoned, 1U);
  EXPECT_TRUE(router_.waiting.empty());
  EXPECT_EQ(health().late_server + health().late_here, 1U);
}

TEST_F(RemoteWorkerLateTest, WhatIsStillAwaitedWhenItStopsIsUnavailable) {
  ask_late({"late", "late"});
  worker_.reset();
  ASSERT_EQ(wanted_.all.size(), 2U);
  EXPECT_EQ(wanted_.all[0].source, Source::kUnavailable);
  EXPECT_EQ(router_.abandoned, 2U);
}

// Other servers of the store answer, and other callers ask, all the time.
TEST_F(RemoteWorkerDeadlineTest, IsKeptWhateverElseHappens) {
  const EndlessEvents events(*worker_);
  EXPECT_EQ(ask({"silence"}).error, "the server did not answer");
  EXPECT_TRUE(events.go_on());
}

TEST_F(RemoteWorkerDeadlineTest, CountsWhoWasLate) {
  ask({"silence", "silence"});
  EXPECT_EQ(health().late_server + health().late_here, 2U);
  router_.when_routed = be_late;
  const std::uint64_t before = health().late_here;
  ask({"silence"});
  EXPECT_EQ(health().late_here, before + 1);
}

// A request waits for calls that are sent before its own: it is late when its own call is.
TEST_F(RemoteWorkerDeadlineTest, CountsFromWhenARequestIsSent) {
  const auto began = RemoteWorker::Clock::now();
  const Answers answers = ask({"silence", "sent later", "now"});
  EXPECT_GE(RemoteWorker::Clock::now() - began, 2 * 20ms);
  EXPECT_EQ(answers.decisions[1].source, Source::kUnavailable);
  EXPECT_EQ(router_.abandoned, 2U);
}

class FakeStore final : public RemoteStore<RemoteSpace> {
 public:
  explicit FakeStore(FakeRouter& router) : RemoteStore("fake", {}, kLong, "app") {
    router.worker = &worker();
    worker().start(router);
  }
  ~FakeStore() override { worker().stop(); }

 private:
  void check_together(std::span<const Request>) const override {}
};

TEST(RemoteStore, SaysOfAGroupWhetherItMayHaveBeenCharged) {
  FakeRouter router;
  FakeStore store(router);
  Decision decision;
  EXPECT_THROW(store.decide_all(requests({"lost", "now"}), kStoreTime, decision), StoreError);
  EXPECT_EQ(decision.source, Source::kUnavailable);
  EXPECT_EQ(decision.taken, kTakenUnknown);
  EXPECT_THROW(store.decide_all(requests({"error", "now"}), kStoreTime, decision), StoreError);
  EXPECT_EQ(decision.taken, 0);
  store.decide_all(requests({"now", "soon"}), kStoreTime, decision);
  EXPECT_TRUE(decision.allowed);
}

// A completion may take long: the deadline of the next request does not count that time.
TEST_F(RemoteWorkerDeadlineTest, TheTimeACompletionTakesIsNotThatOfTheNextRequest) {
  std::promise<Answers> again;
  submit({"later"}, [](const Batch&) { be_late(); });
  submit({"later"}, [&](const Batch&) {
    submit({"soon"}, [&](const Batch& batch) { again.set_value(answers_of(batch)); });
  });
  EXPECT_EQ(again.get_future().get().error, "");
}

}  // namespace
}  // namespace sluice
